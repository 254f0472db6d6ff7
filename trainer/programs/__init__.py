"""The programs of a device: their plans, their traces, and their lowering.

`step` is one step of each kind; it calls the model_fn through `model_calls`. `train_loop`,
`eval_loop` and `predict_loop` run many steps in one call of the device. `multi_step` runs many
training steps in one program that XLA compiles for one core; `xla_steps` and, for evaluation and
prediction, `xla_groups` run many in one program of XLA devices. `device_loops` has one of each, and
`loop_input` traces the one for an input. `functionalize` removes the variables of a traced
function, `portable_operations` replaces operations that some XLA devices compute badly, and
`lowering` lowers the function to HLO. `loop/` runs these programs, and `preflight/` compiles them.
"""

__all__ = [
  "abstract_variables",
  "core_results",
  "device_loops",
  "eval_loop",
  "exact_metrics",
  "executor",
  "functionalize",
  "graph_operations",
  "loop_input",
  "lowering",
  "multi_step",
  "plan",
  "step",
  "step_errors",
  "traced_program",
  "xla_groups",
  "xla_program",
]
