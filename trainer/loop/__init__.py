"""Trains: runs device loops, and the scheduled work between them.

`outer_loop` calls the programs of `trainer.programs` from plain Python, and `boundaries` does the
scheduled work between two calls. `training` uses all of these for an Estimator.
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
