"""Numbers for the Keras side, through SPARE's own extraction, as plain .npz arrays: both sides see the same data."""

import dataclasses
import json
import pathlib

import numpy as np

from spare.data.experience import Experience, concatenate
from spare.language.references import Pointer, Shell, next_pointers
from spare.learning.dataset import DesignMatrix
from spare.learning.fit import make_dataset, prepare
from spare.learning.folds import split_weights
from spare.learning.presets import Preset
from spare.model.predictors import HIGHEST_LOG_VARIANCE, LOWEST_LOG_VARIANCE


class Exporter:
    """Writes the tables of candidate rules over training and test transitions together."""

    def __init__(self, train: Experience, test: Experience, preset: Preset, folder: pathlib.Path) -> None:
        self.preset, self.folder, self.fitted = preset, folder, len(train)
        self.data, _ = prepare(train.domain, concatenate([train, test]))
        (action,) = self.data.domain.actions
        self.roles = action.objects
        self.dataset = make_dataset(self.data, action.name, preset)
        self._written: dict[str, pathlib.Path] = {}

    def settings(self, tuned: bool = False) -> dict:
        """What the Keras side must know of the preset."""
        training = dataclasses.asdict(self.preset.training)
        names = ("hidden", "phases", "epochs", "batch", "learning_rate")
        bounds = {"log_variance": [LOWEST_LOG_VARIANCE, HIGHEST_LOG_VARIANCE]}
        return {**{name: training[name] for name in names}, **bounds, "tuned": tuned, "steps_at_once": 32}

    def world(self, seed: int) -> pathlib.Path:
        """What every candidate shares, with the split that `spare.fit` draws for this seed."""
        data, dynamic = self.data, list(self.data.domain.dynamic)
        before = data.values[:, dynamic].astype(np.float64)
        rest = np.zeros(len(data) - self.fitted)
        split = split_weights(data.weights[: self.fitted], self.preset.search.validation, seed)
        training, validation = (np.concatenate([part, rest]) for part in split)
        path = self.folder / f"world{seed}.npz"
        np.savez(
            path,
            owner=np.repeat(np.arange(len(data)), data.counts),
            before=before,
            moved=data.next_values[:, dynamic].astype(np.float64) - before,
            resolution=data.domain.resolutions,
            training=training,
            validation=validation,
            test=np.arange(len(data)) >= self.fitted,
        )
        return path

    def extensions(self, pointers: list | None) -> pathlib.Path:
        """Every legal extension of a list of pointers; None stands for the rule with empty lists alone."""
        key = json.dumps(pointers)
        if key not in self._written:
            path = self.folder / f"round{len(self._written)}.npz"
            self.write(path, self._shells(pointers))
            self._written[key] = path
        return self._written[key]

    def _shells(self, pointers: list | None) -> list[Shell]:
        roles = len(self.roles)
        if pointers is None:
            return [Shell(roles)]
        shell = Shell(roles, tuple(Pointer(name, tuple(arguments)) for name, arguments in pointers))
        return [shell.extend(pointer) for pointer in next_pointers(self.data.domain.references, shell.slots)]

    def write(self, path: pathlib.Path, shells: list[Shell]) -> None:
        """The tables of these shells, in order, as one .npz file."""
        labels = [
            {"name": shell.show(self.roles), "pointers": [[p.reference, list(p.arguments)] for p in shell]}
            for shell in shells
        ]
        parts: dict[str, np.ndarray] = {"labels": np.array(json.dumps(labels))}
        for number, shell in enumerate(shells):
            table: DesignMatrix = self.dataset.matrix(shell, shell)
            for name in ("x", "y", "spread", "applies", "outputs"):
                parts[f"{name}{number}"] = getattr(table, name)
        np.savez(path, **parts)
