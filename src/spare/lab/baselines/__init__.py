"""What SPARE is compared to, behind the same protocol: `log_prob`, `sample`, `predict` (section 5.2 of the paper).

gaussian.py    p(s' | s, a) from Gaussians for every value of every object: what flat and graph networks share
flat.py        one network over all objects in a row, the paper's baseline; as an ensemble, PETS
graph.py       an interaction network over objects and pairs of objects; any number of objects
simple.py      nothing moves; our own learner with the true lists given
"""
