"""The kinds of a run: training, evaluation, prediction.

Each kind has a batch size, an input_fn and a step of its own. A model_fn receives the kind as a
mode, see `trainer.spec.MODE_OF`.
"""

import enum


class Kind(enum.StrEnum):
  """A kind of run; equal to its name, as gin files and messages have it."""

  TRAIN = "train"
  EVAL = "eval"
  PREDICT = "predict"
