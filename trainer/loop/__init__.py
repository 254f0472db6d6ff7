"""Trains: device loops one after the other, and what is due between two of them.

`outer_loop` calls the programs of `trainer.programs` from plain Python, and `boundaries` does what
is due between two calls. `training` uses all of these for an Estimator.
"""

__all__ = [
  "boundaries",
  "non_finite",
  "outer_loop",
  "preemption",
  "thread_lock",
  "training",
  "training_lock",
  "variable_check",
  "watchdog",
]
