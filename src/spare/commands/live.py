"""A live view of a search: round, candidates, losses so far, remaining time."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

    from spare.learning.em import Iteration
    from spare.learning.history import Explored, Round


class SearchView:
    """Prints a line per round, and in a terminal a progress bar within it; quiet prints nothing."""

    def __init__(self, action: str, roles: tuple[str, ...], quiet: bool = False) -> None:
        self.action, self.roles, self.quiet = action, roles, quiet
        self._bar: Progress | None = None
        self._lowest = float("inf")

    def _open(self, text: str, total: int | None) -> None:
        """Show a bar, or without a total a spinner, where there is a terminal."""
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        console = Console(stderr=True)
        if not self.quiet and console.is_terminal:
            words = TextColumn("{task.description}", markup=False)  # lists stand in brackets, as markup does
            counted = (MofNCompleteColumn(), TimeRemainingColumn()) if total is not None else ()
            self._bar = Progress(words, BarColumn(), *counted, console=console, transient=True)
            self._bar.add_task(f"{self.action}: {text}", total=total)
            self._bar.start()

    def close(self) -> None:
        """Stop the bar, if there is one."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _say(self, text: str) -> None:
        if not self.quiet:
            print(text, file=sys.stderr)

    def round_started(self, number: int, candidates: int) -> None:
        """Open the round's progress bar."""
        self._lowest = float("inf")
        self._open(f"round {number}", candidates)

    def candidate_done(self, explored: Explored) -> None:
        """One more trained; show the lowest loss so far."""
        self._lowest = min(self._lowest, explored.loss)
        if self._bar is not None:
            text = f"{self.action}: lowest loss {self._lowest:.2f}  [{explored.gamma.show(self.roles)}]"
            self._bar.update(self._bar.task_ids[0], advance=1, description=text[:90])

    def round_ended(self, number: int, round_: Round) -> None:
        """Close the bar and say what the round decided."""
        self.close()
        if not round_.explored:
            return
        trained = sum(e.trained for e in round_.explored)
        skipped = len(round_.explored) - trained
        text = f"round {number}: {trained} trained" + (f", {skipped} skipped" if skipped else "")
        if (best := round_.best) is not None:
            text += f"; best loss {best.loss:.2f} [{best.gamma.show(self.roles)}]"
            if best.delta != best.gamma:
                text += f" changes [{best.delta.show(self.roles)}]"
        if number:
            verdict = "kept" if round_.accepted else "not kept"
            text += f"; gain {round_.improvement:+.2f} nats (p = {round_.p_value:.2g}): {verdict}"
        self._say(f"{text}  ({round_.seconds:.1f} s)")

    def step_started(self, text: str) -> None:
        """In a terminal, say what is being done."""
        self._open(text, None)

    def step_ended(self, text: str, seconds: float) -> None:
        """Say what was decided."""
        self.close()
        self._say(f"{text}  ({seconds:.1f} s)")


class ManyView:
    """The view of a many-rule fit: the searches of its parts, then one line per EM iteration."""

    def __init__(self, action: str, roles: tuple[str, ...], quiet: bool = False) -> None:
        self.action, self.roles, self.quiet = action, roles, quiet
        self._seconds: list[float] = []
        self._search: SearchView | None = None

    def stage(self, text: str) -> SearchView:
        """A search begins."""
        self.close()
        if not self.quiet:
            print(f"{self.action}: {text}", file=sys.stderr)
        self._search = SearchView(self.action, self.roles, self.quiet)
        return self._search

    def close(self) -> None:
        """Stop the bar of the search, if there is one."""
        if self._search is not None:
            self._search.close()

    def step_started(self, text: str) -> None:
        """A step of learning one rule that tells several mechanisms apart begins."""
        self.close()
        self._search = SearchView(self.action, self.roles, self.quiet)
        self._search.step_started(text)

    def step_ended(self, text: str, seconds: float) -> None:
        """Say what was decided."""
        assert self._search is not None
        self._search.step_ended(text, seconds)

    def iteration(self, done: Iteration, most: int) -> None:
        """Likelihood, certainty of memberships, the heaviest shell of each rule, the time that may remain."""
        if self.quiet:
            return
        certain = float(done.memberships.max(axis=1).mean())
        text = f"EM {done.number} of at most {most}: {done.log_likelihood:.2f} nats, memberships {certain:.0%} certain"
        if done.number:
            self._seconds.append(done.seconds)
            left = sum(self._seconds) / len(self._seconds) * (most - done.number)
            text += f", changed by {done.change:.2%}; at most {left:.0f} s to go"
        lines = [text]
        for j, shells in enumerate(done.shells):
            best, share = shells.top(1)[0], float(done.memberships[:, j].mean())
            flag = "  (has lost its samples)" if j in done.starved else ""
            lines.append(
                f"   rule {j + 1}: {share:.0%} of samples, {shells[best]:.0%} on [{best.show(self.roles)}]{flag}"
            )
        print("\n".join(lines), file=sys.stderr)
