"""Judges a model by its predictions: its errors, its confidence, and which differences are noise.

A run asks for an `evaluation_report`. The report lets the model predict. `observations` keeps a few
numbers of each example. `class_figures` or `number_figures` compute the figures from them, and
`bootstrap` computes the intervals. `slices` computes figures of parts of the set. `differences`
compares the observations of two models. `reporting.evaluation_reports` writes the files, and
`plot.evaluation_charts` draws.
"""

__all__ = ["differences", "evaluation_report"]
