"""What of a TPU's memory and arithmetic goes to padding.

A TPU stores an array in tiles of 8 × 128 (sublanes × lanes) over two of its axes, which the
compiler chooses, and pads both up to whole tiles (Google Cloud, "Cloud TPU performance guide").
What the best choice of axes wastes, any program wastes.
"""

import itertools
import math

from trainer.inputs import elements

SUBLANES, LANES = 8, 128

# Below this, other choices matter more.
_WORTH_SAYING = 0.3


def waste(shape):
  """The share, in [0, 1), of an array's stored size that is padding, under the best choice of axes.

  Args:
    shape: tuple of ints.
  """
  sizes = [*shape, 1] if len(shape) < 2 else shape
  shares = [
    1 - (sizes[i] / _up(sizes[i], SUBLANES)) * (sizes[j] / _up(sizes[j], LANES))
    for i, j in itertools.permutations(range(len(sizes)), 2)
  ]
  return min(shares)


def warnings(element_spec, per_core):
  """Sentences on what is padded badly.

  Args:
    element_spec: of a dataset of per-core batches, see `trainer.inputs`.
    per_core: the per-core batch size.
  """
  sentences = []
  if per_core % SUBLANES:
    share = 1 - per_core / _up(per_core, SUBLANES)
    sentences.append(
      f"A per-core batch of {per_core} is no multiple of {SUBLANES}: on a TPU {share:.0%} of its "
      f"rows are padding; {_up(per_core, SUBLANES)} "
      "costs the same."
    )
  for path, leaf in elements.named_leaves(element_spec):
    shape = tuple(leaf.shape.as_list())
    if math.prod(shape) >= SUBLANES * LANES and waste(shape) >= _WORTH_SAYING:
      sentences.append(
        f"{path} of shape {shape} pads badly to a TPU's tiles of {SUBLANES} × {LANES}: at least "
        f"{waste(shape):.0%} of it is padding; one axis "
        f"should be near a multiple of {LANES}."
      )
  return sentences


def _up(size, multiple):
  return -(-size // multiple) * multiple
