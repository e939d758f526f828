"""One HTML page about a run, made from files alone: no model is loaded, nothing is computed again.

document.py     what a page is made of: sections of text, tables, charts, scenes
charts.py       numbers as SVG, in colours that suit a light and a dark page
learned.py      sections on one learned model: rules, search, calibration, transitions
results.py, comparison.py   the pages of `spare reproduce` and of `spare demo`
render.py       a document as one self-contained HTML file; page.css, viewer.js are put into it
"""
