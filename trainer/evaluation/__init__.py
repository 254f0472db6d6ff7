"""Evaluates checkpoints: how one is evaluated, what is written down of it, and when it is due.

`evaluator` evaluates a checkpoint for an Estimator: `batches` runs all batches of a set, and
`record` writes the result down. `pending` keeps which evaluations are still to be done. `schedule`
does those that the EvalSpecs of a run ask for, during the training of `train_evaluate` or beside
it.
"""

__all__ = ["batches", "evaluator", "schedule", "train_evaluate"]
