"""Input: calls an input_fn, checks its dataset, and makes the per-core batches.

An element of every dataset in this package is a tuple of nests of dense tensors: `(features,)`,
`(features, labels)`, or `(features, labels, sample_weight)`, see `weights`. The first axis of each
tensor is the batch of one core. A training step takes the next elements, one for each replica.
Evaluation and prediction take groups, see `groups`.
"""

__all__ = [
  "benchmark",
  "call",
  "data_service",
  "data_service_main",
  "decodable",
  "elements",
  "feeder",
  "groups",
  "read_errors",
  "stacks",
  "tpu_tiles",
  "weights",
]
