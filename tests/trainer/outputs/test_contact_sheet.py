"""Contact sheets: which feature is the image, how it is shown, and what is drawn."""

import sys

import numpy as np
import pytest
import tensorflow as tf

from trainer import errors
from trainer.outputs import contact_sheet

GREEN, RED = (0, 128, 0), (178, 34, 34)


def test_the_first_feature_that_looks_like_an_image():
  image = np.zeros([4, 5, 3], np.float32)
  features = {
    "a": np.zeros([4, 5, 2], np.float32),
    "b": np.zeros([4, 5, 3], np.int32),
    "c": np.zeros([9]),
    "d": image,
    "e": np.zeros([2, 2, 1]),
  }
  assert contact_sheet.image_of(features) is image
  assert contact_sheet.image_of(image) is image
  assert contact_sheet.image_of({"a": features["a"], "text": b"abc"}) is None


@pytest.mark.parametrize(
  "values, shown",
  [
    pytest.param(np.uint8([0, 51, 255]), [0, 0.2, 1], id="uint8"),
    pytest.param(np.float32([0.2, 0.3, 0.5]), [0.2, 0.3, 0.5], id="float"),
    pytest.param(np.float32([-1, 0, 3]), [0, 0.25, 1], id="standardised"),
    pytest.param(np.float32([3, 3, 3]), [0, 0, 0], id="flat"),
    pytest.param(tf.constant([0, 0.25, 1], tf.bfloat16).numpy(), [0, 0.25, 1], id="bfloat16"),
  ],
)
def test_pixels_are_brought_to_0_to_1(values, shown):
  np.testing.assert_allclose(
    contact_sheet.to_pixels(values.reshape([1, 1, 3])), np.reshape(shown, [1, 1, 3]), atol=1e-6
  )
  np.testing.assert_allclose(
    contact_sheet.to_pixels(values.reshape([1, 3, 1])), np.reshape(shown, [1, 3]), atol=1e-6
  )


def drawn(path, captions):
  images = [np.full([8, 8, 3], index * 20, np.uint8) for index in range(len(captions))]
  assert contact_sheet.write(str(path), images, captions)
  return tf.io.decode_png(path.read_bytes(), channels=3).numpy()


def has(pixels, colour):
  return (pixels == colour).all(-1).any()


def test_captions_have_the_colour_of_what_they_say(tmp_path):
  right, wrong, unknown = (
    contact_sheet.Caption(["MMMMM 70.0 %", "a name that is longer than the tile"], right)
    for right in (True, False, None)
  )
  pixels = drawn(tmp_path / "sheet.png", [right, wrong])
  left, other = np.split(pixels, 2, 1)
  assert has(left, GREEN)
  assert not has(left, RED)
  assert has(other, RED)
  assert not has(other, GREEN)
  pixels = drawn(tmp_path / "sheet.png", [unknown])
  assert not has(pixels, GREEN)
  assert not has(pixels, RED)


@pytest.mark.parametrize("count, rows, columns", [(1, 1, 1), (6, 1, 6), (7, 2, 6)])
def test_rows_of_six(count, rows, columns, tmp_path):
  pixels = drawn(tmp_path / "sheet.png", [contact_sheet.Caption(["x"])] * count)
  assert pixels.shape == (int(rows * 2.1 * 110), int(columns * 1.7 * 110), 3)
  for index in range(1, count):
    assert has(pixels, (index * 20,) * 3)


def test_without_matplotlib_it_is_said(tmp_path, monkeypatch, caplog):
  monkeypatch.setitem(sys.modules, "matplotlib", None)
  with caplog.at_level("WARNING", logger="absl"):
    assert not contact_sheet.write(
      str(tmp_path / "sheet.png"), [np.zeros([2, 2, 3])], [contact_sheet.Caption(["x"])]
    )
  assert "No contact sheet: it needs matplotlib" in caplog.text
  assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there(tmp_path):
  with pytest.raises(
    errors.OutputError,
    match=r"Cannot write the contact sheet to "
    r".*sheet.png \(--model_dir\)",
  ):
    contact_sheet.write(
      str(tmp_path / "nowhere" / "sheet.png"), [np.zeros([2, 2, 3])], [contact_sheet.Caption(["x"])]
    )
