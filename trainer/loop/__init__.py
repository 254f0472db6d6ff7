"""Steps, many steps in one call of the device, and the loop around them.

`step` is one step of each kind, `device_loops` runs many in one call, `outer_loop` calls these in
plain Python, `boundaries` does what is due between two calls.
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
