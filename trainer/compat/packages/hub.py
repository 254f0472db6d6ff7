"""tensorflow_hub: its own names if installed, and the export of a program's modules.

A module is a SavedModel with a graph for each set of tags, as in hub until 0.15:

    spec = hub.create_module_spec(module_fn, [(set(), {"is_training": False})])
    spec.export("out/module", checkpoint_path="out/model.ckpt-1000")
"""

import os
from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf

v1 = tf.compat.v1

_SIGNATURES = "trainer_compat_hub_signatures"


def _named(tensors: Any) -> dict[str, tf.Tensor]:
  return {"default": tensors} if tf.is_tensor(tensors) else dict(tensors)


def add_signature(name: str | None = None, inputs: Any = None, outputs: Any = None) -> None:
  """In a module_fn: declares the input and output tensors of a signature."""
  v1.add_to_collection(_SIGNATURES, (name or "default", _named(inputs), _named(outputs)))


def create_module_spec(
  module_fn: Callable, tags_and_args: Any = None, drop_collections: Iterable[str] | None = None
) -> "ModuleSpec":
  """Returns the module of a module_fn, for its export.

  Args:
    module_fn: makes placeholders and the network, and calls add_signature.
    tags_and_args: list of (set of tags, dict of arguments for module_fn).
    drop_collections: names of collections to leave out.
  """
  return ModuleSpec(module_fn, tags_and_args or [(set(), {})], list(drop_collections or []))


class ModuleSpec:
  """See create_module_spec."""

  def __init__(self, module_fn: Callable, tags_and_args: Any, drop_collections: list[str]):
    self._module_fn = module_fn
    self._tags_and_args = tags_and_args
    self._drop_collections = drop_collections

  def export(
    self,
    path: str,
    _unused: Any = None,
    checkpoint_path: str | None = None,
    name_transform_fn: Callable[[str], str] | None = None,
  ) -> None:
    """Writes the module, with the values of a checkpoint, or initial ones.

    Args:
      path: the folder, which must not exist.
      checkpoint_path: the checkpoint.
      name_transform_fn: function from a variable's name to its name in the checkpoint.
    """
    builder = v1.saved_model.Builder(os.fspath(path))
    for index, (tags, arguments) in enumerate(self._tags_and_args):
      with tf.Graph().as_default() as graph, v1.Session(graph=graph) as session:
        self._module_fn(**arguments)
        _initialize(session, checkpoint_path, name_transform_fn)
        signatures = {
          name: v1.saved_model.predict_signature_def(inputs, outputs)
          for name, inputs, outputs in v1.get_collection(_SIGNATURES)
        }
        for key in (_SIGNATURES, v1.GraphKeys.UPDATE_OPS, *self._drop_collections):
          graph.clear_collection(key)
        options = dict(signature_def_map=signatures, strip_default_attrs=True)
        if index == 0:
          builder.add_meta_graph_and_variables(session, list(tags), **options)
        else:
          builder.add_meta_graph(list(tags), **options)
    builder.save()


def _initialize(
  session: v1.Session, checkpoint_path: str | None, rename: Callable[[str], str] | None
) -> None:
  variables = v1.global_variables()
  if checkpoint_path is None:
    session.run(v1.global_variables_initializer())
  elif variables:
    stored = {(rename or str)(one.op.name): one for one in variables}
    v1.train.Saver(stored).restore(session, checkpoint_path)
  session.run(v1.tables_initializer())
