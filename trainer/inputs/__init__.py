"""Input: calls an input_fn, checks what comes back, and makes the batches of the cores from it.

An element of every dataset in this package is a tuple, `(features,)` or `(features, labels)`, of
nests of dense tensors. The first axis of each tensor is the batch of one core. Training takes the
elements in turn, one for each replica. Evaluation and prediction take groups, see `groups`.
"""

__all__ = ["benchmark", "call", "decodable", "elements", "groups", "tpu_tiles"]
