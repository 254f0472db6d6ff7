"""EvalSpecs for the tests of evaluations."""

from tests.trainer import programs
from trainer import EvalSpec


def evaluated(log, name=None, **kwargs):
  """An EvalSpec that writes down the steps that it is used at."""
  return EvalSpec(
    programs.examples(11),
    name=name,
    hooks=[lambda step, metrics, _: log.append((name, step))],
    **kwargs,
  )
