"""Splits the names of devices, without TensorFlow.

device_names.split("xla:gpu:2")  # ("xla:gpu", 2)
device_names.split("cpu")        # ("cpu", None)
"""

import re


def split(name: str) -> tuple[str, int | None]:
  """Returns (kind, number of devices) of a name for --device; None for a name without a number."""
  kind, number = re.fullmatch(r"(.*?)(?::(\d+))?", name).groups()  # type: ignore[union-attr]
  return kind, None if number is None else int(number)
