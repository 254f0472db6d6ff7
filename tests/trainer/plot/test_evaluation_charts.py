"""Charts of an evaluation report: which there are, and what they show."""

import re

import pytest

from trainer.plot import evaluation_charts

pytest.importorskip("matplotlib")

CONFUSIONS = {"names": ["ant", "bee"], "counts": [[1234, 0, 1], [5, 60, 0]], "has_others": True}


def texts(svg):
  return re.findall(r">([^<>\n]+)</text>", svg)


def test_a_report_without_figures_has_no_chart():
  assert evaluation_charts.svgs({"confusions": None, "calibration": None}) == []


def test_a_matrix_has_counts_names_and_no_zeros():
  [svg] = evaluation_charts.svgs({"confusions": CONFUSIONS})
  found = texts(svg)
  assert {"1,234", "60", "5", "1", "others", "predicted", "label"} <= set(found)
  assert (found.count("ant"), found.count("bee"), found.count("0")) == (2, 2, 0)
  assert 'aria-label="confusion matrix"' in svg
