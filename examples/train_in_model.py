"""Train a policy inside a learned model, with stable-baselines3: a car learns to bring its trailer to a place.

Run it: pip install stable-baselines3, then python examples/train_in_model.py
"""

from __future__ import annotations

import importlib.util
import sys

import spare
from spare.lab.tasks.known import PARK
from spare.lab.worlds import vehicle


def environment(model: spare.Model) -> spare.LearnedEnv:
    """The first task of the suite `park`, as an environment that the model plays."""
    task = PARK.task(0)
    return spare.LearnedEnv(PARK.problem(model, task.given), task.start, steps=PARK.steps)


def main() -> None:
    """Learn the model from 300 random drives, then a policy in the model."""
    if importlib.util.find_spec("stable_baselines3") is None:
        sys.exit("this example needs stable-baselines3: pip install stable-baselines3")
    from stable_baselines3 import SAC  # pyright: ignore[reportMissingImports]

    data = vehicle.generate(300, 0, objects=PARK.objects)
    model = spare.fit(vehicle.domain, data, seed=0).model
    policy = SAC("MultiInputPolicy", environment(model), seed=0, verbose=1)
    policy.learn(5_000)
    env = environment(model)
    solved = 0
    for episode in range(20):
        seen, _ = env.reset(seed=episode)
        over = reached = False
        while not over:
            action, _ = policy.predict(seen, deterministic=True)
            seen, _, reached, truncated, _ = env.step(action)
            over = reached or truncated
        solved += reached
    print(f"{solved} of 20 episodes reach the place in the model")


if __name__ == "__main__":
    main()
