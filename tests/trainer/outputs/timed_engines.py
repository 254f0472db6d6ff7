"""Engines that take a known time, by a clock of their own."""

from trainer.outputs import engines


class Clock:
  """Seconds that pass when an engine is called."""

  now = 0.0

  def __call__(self):
    return self.now

  def later(self, seconds):
    self.now += seconds


class Timed(engines.Engine):
  """Takes so many seconds for an example, and so many more for a call."""

  def __init__(self, name, clock, call, example):
    self.name, self.clock, self.call, self.example = name, clock, call, example
    self.sizes = []

  def predict_batch(self, features):
    self.sizes.append(len(features["x"]))
    self.clock.now += self.call + self.example * self.sizes[-1]
    return features
