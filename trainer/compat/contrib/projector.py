"""tf.contrib.tensorboard.plugins.projector: the plugin's names, also for writers."""

from typing import Any


def visualize_embeddings(summary_writer: Any, config: Any) -> None:
  """Writes the config of embeddings into a folder, or into the folder of a writer."""
  from tensorboard.plugins import projector

  get_logdir = getattr(summary_writer, "get_logdir", None)
  projector.visualize_embeddings(get_logdir() if get_logdir else summary_writer, config)
