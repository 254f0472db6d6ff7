"""Evaluates checkpoints: how one is evaluated, what is written down of it, and when it is due.

`evaluator` evaluates a checkpoint for an Estimator: `batches` runs all batches of a set, and
`record` writes the result down. `pending` keeps which evaluations are still to be done. `schedule`
does those that the EvalSpecs of a run ask for: during the training of `train_evaluate`, or beside
one of another process, by `continuous`.
"""

__all__ = ["batches", "continuous", "eval_spec", "evaluator", "record", "train_evaluate"]
