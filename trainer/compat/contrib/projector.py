"""tf.contrib.tensorboard.plugins.projector: what TensorBoard's own plugin has, for writers too."""

from typing import Any


def visualize_embeddings(summary_writer: Any, config: Any) -> None:
  """Writes the config of embeddings into the folder of a writer, or into a folder."""
  from tensorboard.plugins import projector

  get_logdir = getattr(summary_writer, "get_logdir", None)
  projector.visualize_embeddings(get_logdir() if get_logdir else summary_writer, config)
