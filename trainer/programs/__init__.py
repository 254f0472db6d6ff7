"""What a device runs: which programs there are, what tracing them finds, and how they are lowered.

`step` is one step of each kind; it calls the model_fn by `model_calls`. `train_loop`, `eval_loop`
and `predict_loop` run many steps in one call of the device; `multi_step` runs many training steps
in one program that XLA compiles for one core; `xla_steps` and, for evaluation and prediction,
`xla_groups` run them in one program of XLA devices. `device_loops` holds one of each, and
`loop_input` traces what fits an input. `functionalize` makes a traced function one without
variables, with operations that every XLA device does well by `portable_operations`, and `lowering`
lowers it to HLO. `loop/` runs these programs, and `preflight/` compiles them.
"""

__all__ = [
  "abstract_variables",
  "core_results",
  "device_loops",
  "eval_loop",
  "executor",
  "functionalize",
  "graph_operations",
  "loop_input",
  "lowering",
  "multi_step",
  "plan",
  "step",
  "step_errors",
  "tpu_only",
  "traced_program",
  "xla_groups",
  "xla_program",
]
