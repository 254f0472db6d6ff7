"""Fashion-MNIST: 60,000 images of clothes to train on and 10,000 to test with, 28 × 28 in grey.

    run.train_input_fn = @train/fashion_mnist.input_fn
    train/fashion_mnist.input_fn.training = True
    fashion_mnist.input_fn.idx_dir = "/data/fashion"       # only where the set is in none of the
                                                           # usual places

The input_fn uses the first of these places that has the set, and logs it:

    <data_dir>/fashion_mnist/<version>/    as TensorFlow Datasets (TFDS) prepares it
    <idx_dir>/*-ubyte.gz                   the four files in which it is published; by default,
                                           where Debian's dataset-fashion-mnist puts them
    a download by TFDS into data_dir

Source, also of the classes' names: H. Xiao, K. Rasul, R. Vollgraf, "Fashion-MNIST: a Novel Image
Dataset for Benchmarking Machine Learning Algorithms" (2017).
"""

import functools
import gzip
import os
import urllib.error
import urllib.request
import zlib
from typing import Any

import gin
import numpy as np
import tensorflow as tf
from absl import logging

import trainer
from trainer import errors

from . import images as image_files
from . import in_memory

CLASS_NAMES = (
  "T-shirt/top",
  "Trouser",
  "Pullover",
  "Dress",
  "Coat",
  "Sandal",
  "Shirt",
  "Sneaker",
  "Bag",
  "Ankle boot",
)
# run.class_names = %fashion_mnist.CLASS_NAMES.
gin.constant("fashion_mnist.CLASS_NAMES", CLASS_NAMES)
DEBIAN_FOLDER = "/usr/share/datasets/fashion-mnist"
_FILES = {
  "train": ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"),
  "test": ("t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"),
}
_SIDE = 28
_UNSIGNED_BYTE = 8  # the code of this type in IDX files
_DOWNLOAD_HOST = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"  # where TFDS gets it


@gin.configurable
@trainer.check_settings
def input_fn(
  params: dict[str, Any],
  split: str = "train",
  training: bool = False,
  data_dir: str | None = None,
  idx_dir: str | None = None,
  start: int = 0,
) -> tf.data.Dataset:
  """Reads Fashion-MNIST.

  Args:
    params: dict with "batch_size".
    split: "train" or "test".
    training: whether to shuffle and repeat without end, see `in_memory.batches`.
    data_dir: the folder of TFDS; None for $TFDS_DATA_DIR or ~/tensorflow_datasets.
    idx_dir: a folder that must have the four *-ubyte.gz files; None to try Debian's.
    start: number of examples that the training has seen; the framework sets it.

  Returns:
    A dataset of ({"image": float32 [batch, 28, 28, 1] in 0..1}, labels: int32 [batch] in 0..9).

  Raises:
    SettingError: there is no such split.
    InputError: no place has the set, or a file is damaged.
  """
  images, labels = load(split, data_dir, idx_dir)
  batches = in_memory.batches(
    {"image": images},
    labels,
    params["batch_size"],
    training=training,
    preprocess=_scale,
    start=start,
  )
  return trainer.mark_decodable(batches, {"image": _from_file})


@functools.cache  # each evaluation calls input_fn again
def load(
  split: str, data_dir: str | None = None, idx_dir: str | None = None
) -> tuple[np.ndarray, np.ndarray]:
  """Loads a split.

  Args:
    split: see `input_fn`.
    data_dir: see `input_fn`.
    idx_dir: see `input_fn`.

  Returns:
    Images (uint8 [n, 28, 28, 1]) and labels (int32 [n]).

  Raises:
    SettingError: there is no such split.
    InputError: no place has the set, or a file is damaged.
  """
  in_memory.check_split("fashion_mnist", split, _FILES)
  return _find(data_dir, idx_dir)(split)


@functools.cache  # both splits come from one place, logged once
def _find(data_dir, idx_dir):
  """Finds the set, and returns a function that reads one of its splits."""
  data_dir = os.path.expanduser(
    data_dir or os.environ.get("TFDS_DATA_DIR") or os.path.join("~", "tensorflow_datasets")
  )
  root = os.path.join(data_dir, "fashion_mnist")
  # Not a glob: data_dir may have a star or brackets.
  names = sorted(tf.io.gfile.listdir(root)) if tf.io.gfile.isdir(root) else []
  versions = [os.path.join(root, name.rstrip("/")) for name in names if name[:1].isdigit()]
  prepared = [one for one in versions if tf.io.gfile.exists(f"{one}/dataset_info.json")]
  if prepared:
    folder = prepared[-1]
    logging.info("Fashion-MNIST: reading the files of TensorFlow Datasets in %s", folder)
    return functools.partial(_read_prepared, folder)

  folder = os.path.expanduser(idx_dir or DEBIAN_FOLDER)
  missing = [
    name
    for names in _FILES.values()
    for name in names
    if not tf.io.gfile.exists(os.path.join(folder, name))
  ]
  if not missing:
    logging.info("Fashion-MNIST: reading the IDX files in %s", folder)
    return functools.partial(_read_idx_files, folder)
  if idx_dir:
    raise _not_found(data_dir, folder, missing, "not tried: idx_dir is set")

  logging.info("Fashion-MNIST: downloading with TensorFlow Datasets to %s", data_dir)
  try:
    return functools.partial(_read_prepared, _download(data_dir))
  except Exception as error:  # the network, the disk, a checksum or TFDS itself may fail
    raise _not_found(
      data_dir, folder, missing, f"failed: {type(error).__name__}: {error}"
    ) from error


def _not_found(data_dir, folder, missing, download):
  return errors.InputError(
    "There is no Fashion-MNIST on this machine. There are three ways to give it:\n"
    "  1. a folder in which TensorFlow Datasets has prepared it:\n"
    "       --gin_bindings=\"fashion_mnist.input_fn.data_dir = '/path/to/tensorflow_datasets'\"\n"
    "     (there is no "
    f"{os.path.join(data_dir, 'fashion_mnist', '<version>', 'dataset_info.json')})\n"
    "  2. a folder with the files "
    f"{', '.join(name for names in _FILES.values() for name in names)}:\n"
    "       apt-get install dataset-fashion-mnist      on Debian and Ubuntu, or\n"
    "       --gin_bindings=\"fashion_mnist.input_fn.idx_dir = '/path/to/folder'\"\n"
    f"     ({folder} is without {', '.join(missing)})\n"
    "  3. a network connection: TensorFlow Datasets then downloads it.\n"
    f"     ({download})"
  )


def _download(data_dir):
  """Downloads and prepares the set; returns its folder."""
  # Ask first, because without a network TFDS tries for three minutes.
  try:
    urllib.request.urlopen(
      urllib.request.Request(_DOWNLOAD_HOST, method="HEAD"), timeout=15
    ).close()
  except urllib.error.HTTPError:
    logging.debug("%s answers", _DOWNLOAD_HOST)  # with an error, but there is a network
  import tensorflow_datasets as tfds

  builder = tfds.builder("fashion_mnist", data_dir=data_dir)
  builder.download_and_prepare()
  return os.fspath(builder.data_path)


def _read_prepared(folder, split):
  import tensorflow_datasets as tfds

  examples = tfds.as_numpy(
    tfds.builder_from_directory(folder).as_dataset(split=split, batch_size=-1)
  )
  return examples["image"], examples["label"].astype(np.int32)


def _read_idx_files(folder, split):
  images_path, labels_path = (os.path.join(folder, name) for name in _FILES[split])
  images, labels = read_idx(images_path, 3), read_idx(labels_path, 1)
  if images.shape != (len(labels), _SIDE, _SIDE):
    raise errors.InputError(
      f"{images_path} has images of shape {list(images.shape)}; expected [{len(labels)}, 28, "
      f"28]: there are {len(labels)} labels in {labels_path}."
    )
  if labels.size and labels.max() >= len(CLASS_NAMES):
    raise errors.InputError(f"{labels_path} has the label {labels.max()}; expected 0 to 9.")
  return images[..., np.newaxis], labels.astype(np.int32)


def read_idx(path: str, rank: int) -> np.ndarray:
  """Reads a gzipped IDX file of bytes.

  The format: two zeros, the type, the rank, each size as a big-endian uint32, the values.

  Args:
    path: local or gs://...
    rank: number of axes that the file must have.

  Returns:
    A uint8 array.

  Raises:
    InputError: the file is damaged, or of another kind.
  """
  with tf.io.gfile.GFile(path, "rb") as file:
    compressed = file.read()
  try:
    content = gzip.decompress(compressed)
  except (EOFError, OSError, zlib.error) as error:
    raise errors.InputError(
      f"{path} is damaged: gzip cannot decompress it ({error}). Get it again."
    ) from error
  magic = bytes([0, 0, _UNSIGNED_BYTE, rank])
  if content[:4] != magic:
    raise errors.InputError(
      f"{path} starts with {content[:4].hex(' ')!r}; expected "
      f"{magic.hex(' ')!r}: this is no IDX file of {rank} axes of bytes."
    )
  header = 4 + 4 * rank
  if len(content) >= header:
    shape = np.frombuffer(content, ">u4", rank, 4).astype(np.int64)
    if len(content) == header + shape.prod():
      return np.frombuffer(content, np.uint8, offset=header).reshape(shape)
  raise errors.InputError(
    f"{path} is damaged: its header announces another size than its {len(content)} decompressed "
    "bytes. Get it again."
  )


def _from_file(encoded):
  """Makes the feature from an image file of any size, with bright clothes on black."""
  return _scale({"image": image_files.decode(encoded, (_SIDE, _SIDE, 1))}, None)[0]["image"]


def _scale(features, labels):
  return {"image": tf.cast(features["image"], tf.float32) / 255.0}, labels
