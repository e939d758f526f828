"""The suites by name."""

from __future__ import annotations

from spare.lab.tasks.known import LOAD, ORDER, PARK
from spare.lab.tasks.table import TABLE
from spare.lab.tasks.task import Suite

SUITES: dict[str, Suite] = {one.name: one for one in (PARK, LOAD, ORDER, *TABLE)}
"""Those of known worlds, then those on the table."""
