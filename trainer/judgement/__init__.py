"""Judges a model by its predictions: where it is wrong, how sure it is, which difference is noise.

`evaluation_report` is what a run asks for. It has the model predict, `observations` keeps of each
example what the figures need, and `class_figures` or `number_figures` compute them, with intervals
from `bootstrap`. `slices` has them for parts of the set. `differences` compares the observations of
two models. `reporting.evaluation_reports` has the files, `plot.evaluation_charts` the drawings.
"""

__all__ = ["differences", "evaluation_report"]
