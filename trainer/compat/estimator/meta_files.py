"""Writes `model.ckpt-<step>.meta` beside each checkpoint.

Programs import it, or copy or rename a checkpoint's three files.

TensorFlow wrote the whole graph. Octet writes the variables and their Saver, without the network:
`tf.train.import_meta_graph` makes the variables, and the Saver that it returns restores them.
RunConfig(checkpoint_save_graph_def=False) turns the files off.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from trainer.io import files, storage

v1 = tf.compat.v1

_ENDING = ".meta"


class MetaFiles(v1.train.CheckpointSaverListener):
  """A saving listener that writes .meta files, and removes them once their checkpoint is gone.

  Args:
    model_dir: the folder of the checkpoints.
    variables: function that returns the training's variables by name.
  """

  def __init__(self, model_dir: str, variables: Callable[[], Mapping[str, tf.Variable]]):
    self._model_dir, self._variables = model_dir, variables
    self._content: bytes | None = None

  def after_save(self, session: Any, global_step_value: int) -> None:
    if self._content is None:
      self._content = _meta_graph(self._variables())
    found = files.matching(self._model_dir, "model.ckpt-*")
    checkpoints = {name.removesuffix(".index") for name in found if name.endswith(".index")}
    there = {name.removesuffix(_ENDING) for name in found if name.endswith(_ENDING)}
    for name in checkpoints - there:
      storage.write(name + _ENDING, self._content)
    for name in there - checkpoints:
      storage.remove(name + _ENDING)


def _meta_graph(variables: Mapping[str, tf.Variable]) -> bytes:
  """Returns the graph of such variables and their Saver."""
  return _content(
    tuple(
      (name, like.shape, like.dtype, like.trainable) for name, like in sorted(variables.items())
    )
  )


# Programs make several Estimators of one model, and a graph takes 2 ms for each variable.
@functools.lru_cache(maxsize=4)
def _content(variables: tuple[tuple[str, tf.TensorShape, tf.DType, bool], ...]) -> bytes:
  with tf.Graph().as_default():
    made = {
      name: v1.get_variable(
        name, shape, dtype, v1.zeros_initializer(), trainable=trainable, use_resource=True
      )
      for name, shape, dtype, trainable in variables
    }
    if v1.GraphKeys.GLOBAL_STEP in made:
      v1.add_to_collection(v1.GraphKeys.GLOBAL_STEP, made[v1.GraphKeys.GLOBAL_STEP])
    return v1.train.Saver(made).export_meta_graph().SerializeToString()
