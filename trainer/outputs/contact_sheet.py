"""A contact sheet: a PNG of images with what was predicted for each, in green where that is right
and in red where it is not.

    contact_sheet.write("out/digits/predictions-2000.png", images, captions)

matplotlib draws it, which the extra [plot] installs.
"""

import dataclasses
import io

import numpy as np
import tensorflow as tf
from absl import logging

from trainer import errors

_COLUMNS = 6
_TILE = 1.7, 2.1  # inches, width and height of an image with its caption
_DOTS_PER_INCH = 110
_LONGEST = 24  # letters in a line of a caption
_COLOURS = {True: "green", False: "firebrick", None: "black"}


@dataclasses.dataclass(frozen=True)
class Caption:
  """What is written over an image.

  Attributes:
    lines: list of str.
    right: whether the prediction is right, or None where nobody knows.
  """

  lines: list
  right: bool | None = None


def image_of(features):
  """The first of an example's features (numpy arrays) that looks like an image, float or uint8
  [height, width, 1 or 3]; None if none does.
  """
  for array in tf.nest.flatten(features):
    # V: bfloat16.
    if (
      np.ndim(array) == 3
      and array.shape[-1] in (1, 3)
      and (array.dtype == np.uint8 or array.dtype.kind in "fV")
    ):
      return array
  return None


def write(path, images, captions):
  """Draws images with their captions, in rows of six.

  Args:
    path: of the PNG file, local or gs://.
    images: list of arrays [height, width, 1 or 3]: uint8, or float in 0..1; floats beyond that, as
      of standardised images, are spread from their own least to their greatest value.
    captions: list of Captions, as many.

  Returns:
    Whether it was written: without matplotlib a log line says how to have it, since the predictions
    themselves are there.

  Raises:
    OutputError: the file cannot be written.
  """
  try:
    from matplotlib import figure
  except ImportError:
    logging.warning(
      "No contact sheet: matplotlib is not installed; `pip install matplotlib` or "
      "Octet's extra [plot] brings it."
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
      "\n".join(_shortened(line) for line in caption.lines),
      fontsize=8,
      color=_COLOURS[caption.right],
    )
  content = io.BytesIO()
  sheet.savefig(content, format="png")
  try:
    with tf.io.gfile.GFile(path, "wb") as file:
      file.write(content.getvalue())
  except (tf.errors.OpError, OSError) as error:
    raise errors.OutputError(
      f"The contact sheet cannot be written to {path} (--model_dir): {error}"
    ) from error
  return True


def to_pixels(image):
  """float64 [height, width] or [height, width, 3] in 0..1."""
  pixels = np.asarray(image).astype(np.float64)
  if np.asarray(image).dtype == np.uint8:
    pixels = pixels / 255
  elif pixels.min() < 0 or pixels.max() > 1:
    pixels = (pixels - pixels.min()) / max(np.ptp(pixels), 1e-12)
  return pixels[..., 0] if pixels.shape[-1] == 1 else pixels


def _shortened(line):
  return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"
