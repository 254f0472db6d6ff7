"""Writes the vocabulary of texts, for `text_lines.input_fn`.

  python -m input_pipelines.make_vocabulary --input=train.tsv --output=vocabulary.txt
  python -m input_pipelines.make_vocabulary --input='reviews-*.jsonl' --text_key=review --size=8000

Outside of a clone the command is `python -m octet_trainer.input_pipelines.make_vocabulary`.

`text_lines` defines the words: in lower case, split at white space, with each punctuation mark as a
word. The file has one word in each line: the most frequent first, equally frequent ones in
alphabetical order. Give only files of the training set: the training must not know the test's
words.
"""

import os

from absl import flags

from trainer import errors
from trainer.cli import command

_INPUT = flags.DEFINE_multi_string(
  "input",
  [],
  "A .csv, .tsv or .jsonl file or a glob, local or gs://...; repeat the flag for several.",
)
_OUTPUT = flags.DEFINE_string("output", "vocabulary.txt", "The file to write.")
_TEXT_KEY = flags.DEFINE_string("text_key", "text", "The column or key of the text.")
_SIZE = flags.DEFINE_integer("size", 30_000, "The most words to write.", lower_bound=1)
_MIN_COUNT = flags.DEFINE_integer(
  "min_count", 1, "Write words with at least this many occurrences.", lower_bound=1
)


def main(argv: list[str]) -> None:
  """Counts the words and writes the most frequent ones.

  Raises:
    SettingError: a flag is missing.
    InputError: reading a file failed, or no word is frequent enough.
    OutputError: writing the vocabulary failed.
  """
  del argv
  if not _INPUT.value:
    raise errors.SettingError("No --input. Try: --input=train.tsv --output=vocabulary.txt")
  if os.path.abspath(str(_OUTPUT.value)) in map(os.path.abspath, _INPUT.value):
    raise errors.SettingError(
      f"--output={_OUTPUT.value} is a file of --input, and the vocabulary would replace it: give "
      "another name."
    )
  # Imports TensorFlow, which takes seconds: check the flags first.
  from . import vocabulary

  counted = vocabulary.count_words(_INPUT.value, _TEXT_KEY.value)
  words = vocabulary.most_frequent(counted, _SIZE.value, _MIN_COUNT.value)
  if not words:
    raise errors.InputError(
      f"No word is there {_MIN_COUNT.value} times: {', '.join(_INPUT.value)} (--min_count)."
    )
  vocabulary.write(str(_OUTPUT.value), words)
  share = sum(counted[word] for word in words) / counted.total()
  print(f"Wrote {len(words)} of {len(counted)} words to {_OUTPUT.value}: {share:.1%} of the texts.")


if __name__ == "__main__":
  command.run(main)
