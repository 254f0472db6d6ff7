"""Writes labelled images as sharded TFRecords, which `tfrecord.input_fn` reads.

  python -m input_pipelines.make_tfrecords --source=tfds:tf_flowers:train
  --output=/data/flowers/train --shards=8 python -m input_pipelines.make_tfrecords
  --source=folder:/photos/birds --output=gs://bucket/birds --shards=64

Each image is decoded once, so that a damaged one is named here and not in the middle of a training;
what is stored are its bytes as they were. The files of a folder are brought into an order that
mixes the classes, always the same. Cut short and started again, it goes on with the first shard
that is not whole. `shard_index` has the layout of what is written.
"""

from absl import flags

from trainer import command, errors

_SOURCE = flags.DEFINE_string("source", None, "tfds:NAME[:SPLIT] or folder:PATH.")
_OUTPUT = flags.DEFINE_string("output", None, "The folder to write to, local or gs://...")
_SHARDS = flags.DEFINE_integer(
  "shards",
  8,
  "How many files. A hundred megabytes each, and several for each host, read well.",
  lower_bound=1,
)
_DATA_DIR = flags.DEFINE_string(
  "data_dir", None, "The folder of TensorFlow Datasets. Default: its own."
)
_CHANNELS = flags.DEFINE_integer("channels", 3, "Of the images of a folder: 3, or 1 for grey.")


def main(argv):
  del argv
  for flag in (_SOURCE, _OUTPUT):
    if not flag.value:
      raise errors.SettingError(
        f"No --{flag.name}. Try: --source=folder:/photos/birds --output=/data/birds --shards=8"
      )
  from input_pipelines import (
    shard_writer,  # brings TensorFlow, for which a missing flag need not wait
  )

  shard_writer.write(
    shard_writer.parse_source(_SOURCE.value, _DATA_DIR.value, _CHANNELS.value),
    _OUTPUT.value,
    _SHARDS.value,
  )


if __name__ == "__main__":
  command.run(main)
