"""What to do with a model: problems, planners, the control loop, and the model as an environment.

A problem says what is wanted and what may be done; a planner finds actions; `control` carries them out.
"""

from spare.planning.control import Loop, control
from spare.planning.plans import Plan, plan
from spare.planning.problems import Constraint, Problem
from spare.planning.records import Record
from spare.planning.samplers import ICEM, MPPI, GradientDescent, PredictiveSampling
from spare.planning.spaces import Actions, Found
from spare.planning.trees import RefinedTree, TreeSearch
from spare.planning.views import StateView

__all__ = [
    "ICEM",
    "MPPI",
    "Actions",
    "Constraint",
    "Found",
    "GradientDescent",
    "Loop",
    "Plan",
    "PredictiveSampling",
    "Problem",
    "Record",
    "RefinedTree",
    "StateView",
    "TreeSearch",
    "control",
    "plan",
]
