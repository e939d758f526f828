"""Section 5 and appendix B of the paper, run again, and experiments of our own.

runs.py, tasks.py   a run: one pure computation, named by its settings and seed; what runs compute
data.py             the push data that runs read, made once per results folder
methods.py          the learners that are compared, by name
scoring.py          one learner on unseen pushes
adding_references.py, extra_blocks.py, training_pushes.py, several_rules.py, worlds.py
                    the experiments by subject: runs, figures, claims
store.py            the results folder: every finished run, whole or not there
statistics.py, claims.py, figures.py        intervals, verdicts, pictures
catalogue.py, runner.py, page.py            all of them; execute; write down
learned.py, scenes.py, comparison.py        what a report tells of one model
"""
