"""Draws a contact sheet: a PNG of images with their predictions, green if right, red if wrong.

    contact_sheet.write("out/digits/predictions-2000.png", images, captions)

It needs matplotlib (the extra [plot]).
"""

import dataclasses
import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from trainer import errors
from trainer.cli import formatting, installation
from trainer.io import storage

_COLUMNS = 6
_TILE = 1.7, 2.1  # Inches, width and height of an image with its caption.
_DOTS_PER_INCH = 110
_LONGEST = 24  # Most characters in a line of a caption.
_COLOURS = {True: "green", False: "firebrick", None: "black"}


@dataclasses.dataclass(frozen=True)
class Caption:
  """The text over an image.

  Attributes:
    lines: the lines.
    right: whether the prediction is right; None without a label.
  """

  lines: list[str]
  right: bool | None = None


def image_of(features: Any) -> np.ndarray | None:
  """Finds an image among the features of one example.

  Args:
    features: a nest of numpy arrays.

  Returns:
    The first float or uint8 array of shape [height, width, 1 or 3], or None.
  """
  for array in tf.nest.flatten(features):
    # numpy reports bfloat16 as kind "V".
    if (
      np.ndim(array) == 3
      and array.shape[-1] in (1, 3)
      and (array.dtype == np.uint8 or array.dtype.kind in "fV")
    ):
      return array
  return None


def write(path: str, images: Sequence[np.ndarray], captions: Sequence[Caption]) -> bool:
  """Draws images with their captions, in rows of six.

  Args:
    path: the PNG file, local or gs://.
    images: arrays [height, width, 1 or 3], see `to_pixels`.
    captions: a caption for each image.

  Returns:
    Whether it wrote the file. Without matplotlib it writes none, and the log says how to install
    it: the predictions themselves are already on disk.

  Raises:
    OutputError: it cannot write the file.
  """
  try:
    from matplotlib import figure  # Not pyplot, which keeps each figure in memory.
  except ImportError:
    logging.warning(
      "No contact sheet: it needs matplotlib; `%s` brings it.", installation.command("plot")
    )
    return False
  columns = min(_COLUMNS, len(images))
  rows = -(-len(images) // columns)
  sheet = figure.Figure(
    figsize=(columns * _TILE[0], rows * _TILE[1]), dpi=_DOTS_PER_INCH, layout="constrained"
  )
  axes = sheet.subplots(rows, columns, squeeze=False).ravel()
  for ax in axes:
    ax.set_axis_off()
  for ax, image, caption in zip(axes, images, captions, strict=False):
    ax.imshow(to_pixels(image), cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    ax.set_title(
      "\n".join(formatting.shorten(line, _LONGEST) for line in caption.lines),
      fontsize=8,
      color=_COLOURS[caption.right],
    )
  content = io.BytesIO()
  sheet.savefig(content, format="png")
  try:
    storage.write(path, content.getvalue())
  except (tf.errors.OpError, OSError) as error:
    raise errors.OutputError(
      f"Cannot write the contact sheet to {path} (--model_dir): {error}"
    ) from error
  return True


def to_pixels(image: np.ndarray) -> np.ndarray:
  """Scales an image for display.

  Args:
    image: [height, width, 1 or 3]: uint8, or float in [0, 1]. Octet scales other floats, such as
      standardised images, to range from 0 to 1.

  Returns:
    float64 [height, width] or [height, width, 3] in [0, 1].
  """
  pixels = np.asarray(image).astype(np.float64)
  if np.asarray(image).dtype == np.uint8:
    pixels = pixels / 255
  elif pixels.min() < 0 or pixels.max() > 1:
    pixels = (pixels - pixels.min()) / max(np.ptp(pixels), 1e-12)
  return pixels[..., 0] if pixels.shape[-1] == 1 else pixels
