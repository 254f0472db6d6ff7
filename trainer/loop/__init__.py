"""Runs steps: one step, many steps in one call of the device, and the loop around these calls.

`step` is one step of each mode. `device_loops` runs many steps in one call. `outer_loop` calls the
device loops from plain Python, and `boundaries` does what is due between two calls.
"""

__all__ = [
  "boundaries",
  "device_loops",
  "evaluation",
  "executor",
  "non_finite",
  "outer_loop",
  "preemption",
  "step",
  "training_lock",
  "turns",
  "watchdog",
]
