"""Made-up observations of classifiers and regressions."""

import numpy as np

from trainer.reporting import evaluation_reports


def classes(count=500, classes=5, right=0.8, seed=1):
  """What Observations.arrays returns of a classifier, right for a share of the examples."""
  random = np.random.default_rng(seed)
  label = np.random.default_rng(0).integers(classes, size=count)
  others = (label + random.integers(1, classes, size=count)) % classes
  predicted = np.where(random.random(count) < right, label, others)
  confidence = random.uniform(0.5, 1, size=count)
  of_label = np.where(predicted == label, confidence, (1 - confidence) / 2)
  return dict(label=label, predicted=predicted, confidence=confidence, of_label=of_label)


def numbers(count=200, noise=1.0, seed=1):
  """The same of a regression."""
  label = np.random.default_rng(0).normal(1e6, 5, size=count)
  predicted = label + 0.5 + noise * np.random.default_rng(seed).normal(size=count)
  nothing = np.full(count, np.nan)
  return dict(label=label, predicted=predicted, confidence=nothing, of_label=nothing)


def write(model_dir, arrays, step=10, kind="classes", evaluation=""):
  """Writes a report that has what a comparison reads."""
  report = dict(
    evaluation=evaluation, step=step, kind=kind, examples=len(arrays["label"]), metrics={}, notes=[]
  )
  evaluation_reports.write(str(model_dir), report, arrays)
  return str(model_dir)
