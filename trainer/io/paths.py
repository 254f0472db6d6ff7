"""Paths to read and write without TensorFlow, local or on gs:// and s3://.

paths.path("gs://bucket/digits") / "metrics.jsonl"
"""

import os

from etils import epath

from trainer import errors


def path(given: str | os.PathLike) -> epath.Path:
  """Returns the path of a file or folder.

  Raises:
    SettingError: the address is of another file system.
  """
  text = os.fspath(given).removeprefix("file://")
  try:
    return epath.Path(text)
  except KeyError as error:
    raise errors.SettingError(
      f"{text} is no usable path here: expected a local path, gs://... or s3://..."
    ) from error
