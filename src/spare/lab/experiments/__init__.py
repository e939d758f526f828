"""Section 5 and appendix B of the paper, run again.

cells.py        a cell: one pure computation, named by its settings and seed; how large a run is
data.py         the push data that cells read, made once per results folder
methods.py      the learners that are compared, by name
scoring.py, paths.py, many.py, kinds.py     what cells compute
store.py        the results folder: every finished cell, whole or not there
statistics.py, claims.py, figures.py        intervals, verdicts, pictures
fig4a.py ... mixed.py                       one experiment each: cells, figures, claims
catalogue.py, runner.py, page.py            all of them; run; write down
"""
