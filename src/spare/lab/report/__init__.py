"""One HTML page about results or a model, made from files alone: no model is loaded, nothing is computed again.

html.py                     parts of a page, and the page as one self-contained file with page.css and viewer.js in it
charts.py                   numbers as SVG, in colours that suit a light and a dark page
learned.py                  sections on one learned model: rules, search, calibration, transitions
results.py, comparison.py   the pages of `spare reproduce` and of `spare demo`
"""
