"""Writes labelled images as sharded TFRecords, for `tfrecord.input_fn`.

  python -m input_pipelines.make_tfrecords --source=tfds:tf_flowers --output=/data/flowers
  python -m input_pipelines.make_tfrecords --source=folder:/photos/birds --output=gs://bucket/birds

Outside of a clone the command is `python -m octet_trainer.input_pipelines.make_tfrecords`.

The command decodes each image once, to find damage now instead of in the middle of a training. It
stores an image's bytes unchanged. It puts the files of a folder into a fixed random order, which
mixes the classes. If the command stops early, the same command resumes at the first incomplete
shard. `shard_index` describes the files.
"""

from absl import flags

from trainer import errors
from trainer.cli import command

_SOURCE = flags.DEFINE_string("source", None, "tfds:NAME[:SPLIT] or folder:PATH.")
_OUTPUT = flags.DEFINE_string("output", None, "The folder to write to, local or gs://...")
_SHARDS = flags.DEFINE_integer(
  "shards",
  8,
  "How many files. Shards of a hundred megabytes, several for each host, read fast.",
  lower_bound=1,
)
_DATA_DIR = flags.DEFINE_string(
  "data_dir", None, "The folder of TensorFlow Datasets. Default: the library's own."
)
_CHANNELS = flags.DEFINE_integer(
  "channels", 3, "Channels of the images of a folder: 3, or 1 for grey."
)


def main(argv: list[str]) -> None:
  """Writes the shards.

  Raises:
    SettingError: a flag is missing or wrong.
    InputError: the source or an image is damaged.
    OutputError: writing to the folder failed.
  """
  del argv
  for flag in (_SOURCE, _OUTPUT):
    if not flag.value:
      raise errors.SettingError(
        f"No --{flag.name}. Try: --source=folder:/photos/birds --output=/data/birds --shards=8"
      )
  # Imports TensorFlow, which takes seconds: check the flags first.
  from . import shard_writer

  shard_writer.write(
    shard_writer.parse_source(str(_SOURCE.value), _DATA_DIR.value, _CHANNELS.value),
    str(_OUTPUT.value),
    _SHARDS.value,
  )


if __name__ == "__main__":
  command.run(main)
