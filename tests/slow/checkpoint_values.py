"""The values of a training's newest checkpoint, for proofs that compare two trainings."""

from trainer.checkpoints import directory, reader


def newest(model_dir):
  """Returns a dict of name → array."""
  path = directory.CheckpointDirectory(model_dir).latest_valid()
  return reader.read(path, list(reader.shapes(path)))
