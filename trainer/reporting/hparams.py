"""Writes the parameters of a sweep's trials for TensorBoard's tab HParams.

    hparams.begin("out/sweep/trials/3", trial)
    hparams.end("out/sweep/trials/3")

TensorBoard finds the metrics of a trial by itself: all scalars of its folder and the folders below.
"""

import ast

from tensorboard.plugins.hparams import api, api_pb2
from tensorboard.plugins.hparams import summary as hparams_summary

from trainer.reporting import summaries, trial_file


def begin(model_dir: str, trial: trial_file.Trial) -> None:
  """Writes the parameters of a trial that begins or resumes."""
  values = {key: _value(text) for key, text in trial.bindings.items()}
  values |= {} if trial.seed is None else {"seed": trial.seed}
  summaries.Writer(model_dir).summary(api.hparams_pb(values, trial_id=trial.title))


def end(model_dir: str) -> None:
  """Writes that a trial has ended."""
  summaries.Writer(model_dir).summary(hparams_summary.session_end_pb(api_pb2.STATUS_SUCCESS))


def _value(text):
  """Returns a number or a bool if the gin text is one; otherwise the text."""
  try:
    value = ast.literal_eval(text)
  except (SyntaxError, ValueError):  # A reference, or a macro.
    return text
  return value if isinstance(value, bool | int | float) else text
