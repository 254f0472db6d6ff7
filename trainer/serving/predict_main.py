"""Predicts for files, with an export and without the model's code.

  python -m trainer.predict --export=out/cifar10/export --input='photos/*.jpg' --output=found.jsonl
  python -m trainer.predict --export=out/cifar10/export --input=photos --output=found.csv
  find photos -name '*.png' | python -m trainer.predict --export=out/cifar10/export --input=-

The exit status is 1 if an example fails without --keep_going, 2 if a flag is wrong, and otherwise
0.
"""

from absl import flags

from trainer.serving import engine_flags

_EXPORT = flags.DEFINE_string(
  "export", None, "A SavedModel's folder, or a folder of exports, to use its newest."
)
_INPUT = flags.DEFINE_multi_string(
  "input",
  [],
  "Files: images, folders of images, TFRecords, .csv, .tsv, .jsonl; a glob, or - for lines on "
  "standard input. Repeat the flag for several.",
)
_OUTPUT = flags.DEFINE_string(
  "output", "-", "A file .jsonl or .csv; - for JSON lines on standard output."
)
_BATCH_SIZE = flags.DEFINE_integer(
  "batch_size", 128, "The most examples in a call of the model.", lower_bound=1
)
flags.adopt_module_key_flags(engine_flags)
_KEEP_GOING = flags.DEFINE_bool(
  "keep_going", False, "Exit with 0 although some examples fail; each has an entry with its error."
)


def main(argv: list[str]) -> int:
  """Predicts, and returns the exit status."""
  del argv
  # This imports TensorFlow and takes seconds: only after parsing the flags.
  from trainer.serving import predict

  return predict.predict(
    _EXPORT.value,
    _INPUT.value,
    _OUTPUT.value,
    batch_size=_BATCH_SIZE.value,
    engine=engine_flags.ENGINE.value,
    precision=engine_flags.PRECISION.value,
    keep_going=_KEEP_GOING.value,
  )
