"""Trials without TensorFlow, and what the tests of a sweep share."""

import os
import pathlib
import re

from trainer.reporting import metrics_file
from trainer.sweep import settings as settings_lib

STEPS = 5

SPACE = """
sweep.metric = 'accuracy'
sweep.mode = 'max'
sweep.sampler = 'random'
sweep.space = {'experiment.x': @x/uniform(), 'experiment.kind': ['a', 'b']}
x/uniform.low = 0.0
x/uniform.high = 1.0
"""


def settings(folder, text=SPACE):
  """The Settings of a sweep file with this text."""
  path = pathlib.Path(folder) / "sweep.gin"
  path.write_text(text)
  return settings_lib.load(str(path))


def flag(arguments, name):
  """The value of --name=value."""
  return next(
    argument.partition("=")[2] for argument in arguments if argument.startswith(f"--{name}=")
  )


def x_of(arguments):
  """The value that a trial has for x."""
  return float(
    next(
      match[1]
      for argument in arguments
      if (
        match := re.search(
          r"experiment\.x = "
          r"(.*)",
          argument,
        )
      )
    )
  )


def evaluate(model_dir, step, x):
  """What a trial reports after so many steps."""
  metrics_file.append(model_dir, "eval", step, {"accuracy": x * step / STEPS, "loss": 1 - x})


def saved_step(model_dir):
  """The step of the checkpoint that a trial goes on from."""
  path = os.path.join(model_dir, "checkpoint")
  return int(pathlib.Path(path).read_text()) if os.path.exists(path) else 0


def save(model_dir, step):
  """Writes a trial's checkpoint."""
  (pathlib.Path(model_dir) / "checkpoint").write_text(str(step))


class Starter:
  """Takes the place of trial_server.Starter: trials go on by one step, with a checkpoint and an
  evaluation, each time that somebody waits for news.

  Attributes:
    started: list of (name, arguments, the step that it went on from).
    signals: list of (name, number).
  """

  def __init__(self, exit_codes=None):
    self.started, self.signals, self.ended = [], [], {}
    self._exit_codes = exit_codes or {}
    self._running = {}

  def start(self, name, arguments, log, lock, slot):
    model_dir = flag(arguments, "model_dir")
    pathlib.Path(log).write_text(f"this is {name}\n")
    self.started.append((name, arguments, saved_step(model_dir)))
    self._running[name] = model_dir, x_of(arguments)

  def signal(self, name, number):
    self.signals.append((name, number))
    if name in self._running:
      del self._running[name]
      self.ended[name] = 75

  def wait(self, seconds):
    del seconds
    for name, (model_dir, x) in list(self._running.items()):
      code = self._exit_codes.get(name, 0)
      step = saved_step(model_dir) + 1
      if code == 0 and step <= STEPS:
        save(model_dir, step)
        evaluate(model_dir, step, x)
      if code or step >= STEPS:
        del self._running[name]
        self.ended[name] = code
