"""Tasks: what planners are asked to do in the lab's worlds, with fixed seeds, and where the truth can be planned in."""
