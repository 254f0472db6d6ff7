"""Warnings that a process gives once, however often their cause comes back."""

from absl import logging

_given: set[str] = set()


def warn_once(text: str) -> None:
  """Logs a warning, unless this process has given the same one before."""
  if text not in _given:
    _given.add(text)
    logging.warning("%s", text)
