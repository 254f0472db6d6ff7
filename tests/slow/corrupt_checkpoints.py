"""Damages 300 checkpoint directories, each in its own way.

Octet must never restore a wrong value, and never restore silently.

Example:
    python -m tests.slow.corrupt_checkpoints --count=300
"""

import argparse
import collections
import logging
import pathlib
import tempfile

from tests.trainer.checkpoints import test_directory

_KINDS = ("cut", "flipped", "missing")


class _Sentences(logging.Handler):
  """The warnings that name a damaged file."""

  def __init__(self):
    super().__init__()
    self.count = 0

  def emit(self, record):
    self.count += "Using " in record.getMessage()


def main():
  parser = argparse.ArgumentParser()
  parser.add_argument("--count", type=int, default=300)
  count = parser.parse_args().count
  sentences = _Sentences()
  logging.getLogger("absl").addHandler(sentences)
  outcomes = collections.Counter()
  with tempfile.TemporaryDirectory() as folder:
    for seed in range(count):
      kind = _KINDS[seed % len(_KINDS)]
      outcomes[kind, test_directory.check_damaged(pathlib.Path(folder), kind, seed)] += 1
  named = sum(number for (_, outcome), number in outcomes.items() if outcome == "named")
  assert sentences.count == named, (sentences.count, named)
  print(
    f"{count} damaged directories: {dict(outcomes)}; {named} times the damaged file was named "
    "and the checkpoint before it used."
  )


if __name__ == "__main__":
  main()
