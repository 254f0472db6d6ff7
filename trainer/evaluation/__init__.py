"""Evaluates checkpoints, records the results, and schedules evaluations.

`evaluator` evaluates a checkpoint for an Estimator: `batches` runs all batches of a set, and
`record` writes the result. `pending` stores unfinished evaluations. `schedule` runs the EvalSpecs
of a run: during the training of `train_evaluate`, or beside another process's training, in
`continuous`.
"""

__all__ = ["batches", "continuous", "eval_spec", "evaluator", "record", "train_evaluate"]
