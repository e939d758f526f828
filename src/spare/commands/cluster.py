"""`spare cluster`: how the start of the many-rule learner separates samples."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import sys
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from spare.arguments import check_seed
from spare.commands.common import check_target, load_data, remember_programs

if TYPE_CHECKING:
    import numpy as np

    from spare.data.experience import Experience


@dataclasses.dataclass(frozen=True)
class Cluster:
    """Learn one rule, cluster the samples by its features, and show how well a known label is separated."""

    data: Annotated[pathlib.Path, tyro.conf.Positional]
    """Parquet file of transitions."""
    rules: int = 3
    """The number of clusters."""
    label: str | None = None
    """An info column with the true group of each sample; height for push data when not given."""
    preset: Literal["shared", "paper"] = "paper"
    """How the single rule is learned."""
    action: str | None = None
    """The action to look at; the first one when not given."""
    seed: int = 0
    """Seed of everything random."""
    out: pathlib.Path | None = None
    """A PNG file for the plot."""
    domain: str | None = None
    """A domain of your own: package.module:name."""
    json: bool = False
    """Print the table as JSON and nothing else."""

    def run(self) -> int:
        """Cluster, print the table, draw the plot."""
        remember_programs()
        from spare.learning.clusters import matched, separation

        check_seed(self.seed)
        if self.out is not None:
            check_target(self.out)
        points, z, labels = self._memberships(load_data(self.data, self.domain))
        names, table = separation(z, labels)
        if self.json:
            print(json.dumps({"labels": names.tolist(), "table": table.tolist()}, indent=1))
        else:
            _print(names, table)
        if self.out is not None:
            _plot(points, matched(z, labels), labels, self.out)
            print(f"wrote {self.out}", file=sys.stderr)
        return 0

    def _memberships(self, data: Experience) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Features (n, d), memberships (n, K) and labels (n,) of the samples of one action."""
        import numpy as np

        from spare.errors import UsageError
        from spare.learning.clusters import Clustering, features, memberships
        from spare.learning.fit import Task, make_dataset, prepare
        from spare.learning.presets import find_preset
        from spare.learning.search import GreedySearch

        action = self.action or data.domain.actions[0].name
        data, _ = prepare(data.domain, data)
        data = data[np.flatnonzero(data.action == data.domain.action_index(action))]
        label = self.label or ("height" if "height" in data.info else None)
        if label is not None and label not in data.info:
            raise UsageError(f"--label {label}: the data have {', '.join(data.info) or 'no info columns'}")
        chosen = find_preset(self.preset).for_many()
        dataset = make_dataset(data, action, chosen)
        single = GreedySearch(dataset, Task(chosen, self.seed).plan(data, dataset)).run()
        if not self.json:
            print(f"the single rule: {single.best.gamma.show(data.domain.action(action).objects)}")
        how = Clustering()
        points = features(dataset, single, single.losses, how)
        z = memberships(points, data.weights, self.rules, how, self.seed)
        return points, z, np.asarray(data.info[label]) if label else np.zeros(len(data), int)


def _print(names: np.ndarray, table: np.ndarray) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from spare.names import shown

    view = Table(title="mean membership")
    view.add_column("cluster")
    for name in names:
        view.add_column(escape(shown(name, 80)), justify="right")
    for j, row in enumerate(table):
        cells = [f"[bold]{value:.3f}[/bold]" if k == j else f"{value:.3f}" for k, value in enumerate(row)]
        view.add_row(str(j + 1), *cells)
    Console().print(view)


def _plot(points: np.ndarray, z: np.ndarray, labels: np.ndarray, out: pathlib.Path) -> None:
    """Loss of every sample by label, coloured by its cluster."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    import numpy as np

    from spare.io.atomic import replacing
    from spare.names import shown

    names = np.unique(labels)
    rng = np.random.default_rng(0)
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    place = np.searchsorted(names, labels) + rng.uniform(-0.32, 0.32, len(labels))
    colours = np.array(["#3b6fb6", "#c8741b", "#2c8a57", "#8e4aa8", "#b03a48", "#5b6470"])
    cluster = z.argmax(axis=1)
    for j in range(z.shape[1]):
        mine = cluster == j
        axes.scatter(place[mine], points[mine, -1], s=9, alpha=0.7, lw=0, c=colours[j % 6], label=f"cluster {j + 1}")
    axes.set_xticks(range(len(names)), [shown(name, 80) for name in names], parse_math=False)
    axes.set_xlabel("label")
    axes.set_ylabel("likelihood feature (weighted loss, nats)")
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    axes.spines[["top", "right"]].set_visible(False)
    with replacing(out) as target:
        figure.savefig(target, dpi=150, format="png")
    plt.close(figure)
