"""Warns about batches that a TPU stores with much padding.

A TPU stores an array in tiles of 8 × 128 (sublanes × lanes) over two of its axes and pads both axes
up to whole tiles (Google Cloud, "Cloud TPU performance guide"). The compiler chooses the two axes.
The figures here are for the best choice: the compiler's choice wastes at least as much.
"""

import itertools
import math

from trainer.inputs import elements

SUBLANES, LANES = 8, 128

# A smaller share of padding is not worth a warning.
_WORTH_SAYING = 0.3


def waste(shape: tuple[int, ...]) -> float:
  """Returns the share, in [0, 1), of an array's stored size that is padding."""
  sizes = [*shape, 1] if len(shape) < 2 else shape
  shares = [
    1 - (sizes[i] / _up(sizes[i], SUBLANES)) * (sizes[j] / _up(sizes[j], LANES))
    for i, j in itertools.permutations(range(len(sizes)), 2)
  ]
  return min(shares)


def warnings(element_spec: tuple, per_core: int) -> list[str]:
  """Returns a sentence for each tensor of a batch that a TPU stores with much padding.

  Args:
    element_spec: the element_spec of a dataset of per-core batches, see `trainer.inputs`.
    per_core: the per-core batch size.
  """
  sentences = []
  if per_core % SUBLANES:
    share = 1 - per_core / _up(per_core, SUBLANES)
    sentences.append(
      f"A per-core batch of {per_core} is no multiple of {SUBLANES}: on a TPU {share:.0%} of its "
      f"rows are padding; {_up(per_core, SUBLANES)} costs the same."
    )
  for path, leaf in elements.named_leaves(element_spec):
    shape = tuple(leaf.shape.as_list())
    if math.prod(shape) >= SUBLANES * LANES and waste(shape) >= _WORTH_SAYING:
      sentences.append(
        f"{path} of shape {shape} pads badly to a TPU's tiles of {SUBLANES} × {LANES}: at least "
        f"{waste(shape):.0%} padding; one axis should be near a multiple of {LANES}."
      )
  return sentences


def _up(size, multiple):
  return -(-size // multiple) * multiple
