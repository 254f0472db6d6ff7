"""`model.ckpt-<step>.meta` beside each checkpoint, for programs that copy or rename its three
files.

TensorFlow kept a graph in it, which nobody needs to restore a checkpoint; here it names the version
of TensorFlow and has no graph. RunConfig(checkpoint_save_graph_def=False) leaves it away.
"""

from typing import Any

import tensorflow as tf

from trainer import files, storage

_ENDING = ".meta"


class MetaFiles(tf.compat.v1.train.CheckpointSaverListener):
  """A saving listener that writes them, and removes those whose checkpoint is gone.

  Args:
    model_dir: the folder of the checkpoints.
  """

  def __init__(self, model_dir: str):
    self._model_dir = model_dir

  def after_save(self, session: Any, global_step_value: int) -> None:
    meta = tf.compat.v1.MetaGraphDef()
    meta.meta_info_def.tensorflow_version = tf.__version__
    content = meta.SerializeToString()
    found = files.matching(self._model_dir, "model.ckpt-*")
    checkpoints = {name.removesuffix(".index") for name in found if name.endswith(".index")}
    there = {name.removesuffix(_ENDING) for name in found if name.endswith(_ENDING)}
    for name in checkpoints - there:
      storage.write(name + _ENDING, content)
    for name in there - checkpoints:
      storage.remove(name + _ENDING)
