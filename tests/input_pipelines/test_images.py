"""Decoding, cropping and scaling of images."""

import io
import struct

import numpy as np
import pytest
import tensorflow as tf

from input_pipelines import images
from tests.input_pipelines import tiny_data
from trainer import errors

_JPEG_ERROR = 8  # of 255, at a quality of 98


def gradient(height, width):
  rows, columns = np.mgrid[:height, :width]
  return np.stack(
    [rows * 255 // height, columns * 255 // width, np.full([height, width], 50)], -1
  ).astype(np.uint8)


@pytest.mark.parametrize("crop", ["central", "squash", None])
def test_of_the_right_size_stays_as_it_is(crop):
  pixels = gradient(9, 7)
  encoded = tf.io.encode_png(pixels)
  np.testing.assert_array_equal(images.decode(encoded, (9, 7, 3), crop), pixels)


@pytest.mark.parametrize("encode", [tf.io.encode_png, tiny_data.jpeg])
def test_central_crop_takes_the_middle_in_proportion(encode):
  result = images.decode(encode(gradient(40, 80)), (20, 20, 3), "central").numpy().astype(int)
  expected = tf.image.resize(gradient(40, 80)[:, 20:60], (20, 20)).numpy()
  assert np.abs(result - expected).max() <= _JPEG_ERROR
  wide = images.decode(encode(gradient(40, 80)), (10, 40, 3), "central").numpy().astype(int)
  assert (
    np.abs(wide - tf.image.resize(gradient(40, 80)[10:30], (10, 40)).numpy()).max() <= _JPEG_ERROR
  )


def with_orientation(encoded, orientation, is_little=True, behind_jfif=False):
  """A JPEG file with EXIF data; it begins with the segment of JFIF, 18 bytes."""
  order, mark = ("<", b"II") if is_little else (">", b"MM")
  # The maker of the camera (at byte 38), then the orientation.
  entries = struct.pack(f"{order}HHHLLHHLHHL", 2, 0x10F, 2, 8, 38, 0x112, 3, 1, orientation, 0, 0)
  tiff = mark + struct.pack(f"{order}HL", 42, 8) + entries + b"A maker\0"
  segment = b"\xff\xe1" + struct.pack(">H", len(tiff) + 8) + b"Exif\0\0" + tiff
  return encoded[: 20 if behind_jfif else 2] + segment + encoded[20 if behind_jfif else 2 :]


# The picture's rows and columns turn into the upright picture's, as the EXIF standard lists them.
UPRIGHT = {
  0: lambda pixels: pixels,  # no orientation
  1: lambda pixels: pixels,
  2: lambda pixels: pixels[:, ::-1],
  3: lambda pixels: pixels[::-1, ::-1],
  4: lambda pixels: pixels[::-1],
  5: lambda pixels: pixels.transpose(1, 0, 2),
  6: lambda pixels: np.rot90(pixels, -1),
  7: lambda pixels: np.rot90(pixels, 2).transpose(1, 0, 2),
  8: np.rot90,
}


@pytest.mark.parametrize("is_little", [True, False])
def test_jpegs_are_turned_upright_as_exif_says(is_little):
  pixels = gradient(40, 60)
  for orientation, turn in UPRIGHT.items():
    encoded = with_orientation(tiny_data.jpeg(pixels), orientation, is_little, orientation % 2 > 0)
    height, width, _ = turn(pixels).shape
    for crop in ("squash", "central", "random", None):
      size = (height, width) if crop == "squash" or crop is None else (20, 20)
      found = images.decode(encoded, (*size, 3), crop).numpy().astype(int)
      expected = images.decode(tf.io.encode_png(turn(pixels)), (*size, 3), crop).numpy()
      assert np.abs(found - expected).max() <= _JPEG_ERROR, (orientation, crop)


def test_exif_data_without_an_orientation_change_nothing():
  pixels = gradient(40, 60)
  encoded = with_orientation(tiny_data.jpeg(pixels), 6).replace(b"\x12\x01\x03", b"\x13\x01\x03")
  found = images.decode(encoded, (40, 60, 3), None).numpy().astype(int)
  assert np.abs(found - pixels).max() <= _JPEG_ERROR


def test_squash_takes_everything():
  result = (
    images.decode(tf.io.encode_png(gradient(40, 80)), (20, 20, 3), "squash").numpy().astype(int)
  )
  assert np.abs(result - tf.image.resize(gradient(40, 80), (20, 20)).numpy()).max() <= 1


def test_random_windows_are_inside_and_of_many_places_and_sizes():
  numbers = tf.random.stateless_uniform([200, 4], [1, 2])
  windows = np.array([images.random_window(tf.constant([40, 60]), 1.0, row) for row in numbers])
  top, left, height, width = windows.T
  assert (top >= 0).all()
  assert (left >= 0).all()
  assert (top + height <= 40).all()
  assert (left + width <= 60).all()
  area = height * width / 2400
  assert 0.2 < area.min() < 0.35
  assert area.max() > 0.6
  ratios = width / height
  assert 0.7 < ratios.min() < 0.85
  assert 1.2 < ratios.max() < 1.6
  assert len(set(zip(top, left, strict=True))) > 100


def test_random_crop_of_jpeg_and_png_is_the_same_window():
  numbers = tf.constant([0.3, 0.6, 0.8, 0.1])
  encoded = [encode(gradient(48, 64)) for encode in (tf.io.encode_png, tiny_data.jpeg)]
  results = [
    images.decode(file, (16, 16, 3), "random", numbers).numpy().astype(int) for file in encoded
  ]
  assert np.abs(results[0] - results[1]).max() <= _JPEG_ERROR
  assert (
    np.abs(
      results[0] - images.decode(tf.io.encode_png(gradient(48, 64)), (16, 16, 3), "central").numpy()
    ).max()
    > 10
  )


def test_grey_and_gif():
  assert images.decode(tiny_data.png(90, 6, 6, 1), (6, 6, 3), "central").shape == (6, 6, 3)
  assert images.decode(tiny_data.png(90, 6, 6, 3), (6, 6, 1), "central").shape == (6, 6, 1)
  from PIL import Image

  file = io.BytesIO()
  Image.fromarray(tiny_data.flat(200)).save(file, "GIF")
  assert images.decode(file.getvalue(), (8, 8, 3), "central").numpy().max() == 200


@pytest.mark.parametrize("crop", ["central", "squash"])
@pytest.mark.parametrize("file_format, mode", [("BMP", "RGB"), ("GIF", "L"), ("JPEG", "CMYK")])
def test_grey_of_files_that_decode_in_colour_alone(file_format, mode, crop):
  from PIL import Image

  file = io.BytesIO()
  picture = Image.fromarray(tiny_data.flat(200)).convert(mode)
  picture.save(file, file_format)
  in_colour = images.decode(file.getvalue(), (8, 8, 3), crop)
  found = images.decode(file.getvalue(), (8, 8, 1), crop)
  np.testing.assert_array_equal(found, in_colour[..., :1])  # a grey picture
  assert np.abs(found.numpy().astype(int) - 200).max() <= 1


def record(place):
  return tf.strings.join(["record ", tf.strings.as_string(place)])


@pytest.mark.parametrize("content", [b"", b"B", b"<html>not here</html>"])
def test_what_is_no_image_is_named(content):
  with pytest.raises(tf.errors.InvalidArgumentError, match=r"birds/7\.jpg is no JPEG"):
    images.assert_image_file(tf.constant(content), tf.constant("birds/7.jpg"))
  encoded = tf.constant([tiny_data.png(1), content, content])
  with pytest.raises(tf.errors.InvalidArgumentError, match=r"record 1 is no JPEG"):
    images.assert_images(encoded, record)


def test_images_pass_unchanged():
  encoded = tf.constant([tiny_data.png(1), tiny_data.jpeg(tiny_data.flat(3)), b"GIF89a", b"BM12"])
  assert (images.assert_images(encoded, record).numpy() == encoded.numpy()).all()
  none = images.assert_images(encoded[:0], record)
  assert none.shape == [0]


def test_to_float():
  pixels = tf.constant(gradient(4, 4)[np.newaxis])
  np.testing.assert_allclose(images.to_float(pixels), gradient(4, 4)[np.newaxis] / 255, rtol=1e-6)
  each = images.to_float(pixels, "image").numpy()
  assert abs(each.mean()) < 1e-5
  assert abs(each.std() - 1) < 1e-3
  channels = images.to_float(pixels, ((0.1, 0.2, 0.3), (0.5, 0.5, 2.0))).numpy()
  np.testing.assert_allclose(
    channels[0, 0, 0], [(0 - 0.1) / 0.5, (0 - 0.2) / 0.5, (50 / 255 - 0.3) / 2], rtol=1e-5
  )


def test_errors():
  with pytest.raises(errors.SettingError, match='standardise is "?.?mean'):
    images.to_float(tf.zeros([1, 2, 2, 3]), "mean")
  with pytest.raises(errors.SettingError, match=r"differ in size: set birds\.input_fn\.image_size"):
    images.size_of(None, (None, None, 3), "birds.input_fn")
  with pytest.raises(errors.SettingError, match=r"birds\.input_fn\.image_size is \(1, 2, 3\)"):
    images.size_of((1, 2, 3), (None, None, 3), "birds.input_fn")
  with pytest.raises(errors.SettingError, match=r"birds\.input_fn\.crop is 'middle'"):
    images.check_crop("middle", "birds.input_fn")
  assert images.size_of(5, (None, None, None), "x") == (5, 5, 3)
  assert images.size_of((5, 6), (8, 8, 1), "x") == (5, 6, 1)
  assert images.size_of(None, (8, 9, 1), "x") == (8, 9, 1)
