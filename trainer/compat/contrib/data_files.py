"""slim.parallel_reader, without its queues."""

from collections.abc import Sequence

from trainer.io import storage


def get_data_files(data_sources: str | Sequence[str]) -> list[str]:
  """Returns the files of names and patterns.

  Raises:
    ValueError: a pattern matches no file.
  """
  if isinstance(data_sources, list | tuple):
    return [name for one in data_sources for name in get_data_files(one)]
  is_pattern = any(mark in data_sources for mark in "*?[")
  found = storage.glob(data_sources) if is_pattern else [data_sources]
  if not found:
    raise ValueError(f"get_data_files({data_sources!r}): no file has such a name.")
  return found
