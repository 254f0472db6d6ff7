"""Runs steps: one step, many steps in one call of the device, and the loop around these calls.

`step` is one step of each kind; it calls the model_fn by `model_calls`. `train_loop`, `eval_loop`
and `predict_loop` run many steps in one call of the device; `multi_step` and, for evaluation and
prediction, `multi_group` run them in one program of the device. `device_loops` holds one of each.
`outer_loop` calls them from plain Python, and `boundaries` does what is due between two calls.
`training` and `evaluator` use all of these for an Estimator.
"""

__all__ = [
  "boundaries",
  "core_results",
  "device_loops",
  "dry_run",
  "evaluation",
  "evaluator",
  "executor",
  "loop_input",
  "non_finite",
  "outer_loop",
  "preemption",
  "program_length",
  "step",
  "step_errors",
  "tpu_only",
  "training",
  "training_lock",
  "turns",
  "watchdog",
]
