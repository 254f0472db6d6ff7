"""What TensorFlow keeps to itself and Octet relies on, from 2.18 to 2.21.

The one file that names it.
"""

import contextlib
import random
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from trainer.internals import private_names

# What is replaced, as `patches.replaces` takes it.

_FREEZE = private_names.find(
  "tensorflow.python.framework.convert_to_constants.convert_variables_to_constants_v2"
)

# What makes each operation of a function.
CREATE_OPERATION = private_names.member(
  "tensorflow.python.framework.func_graph.FuncGraph._create_op_internal"
)

# Makes what a tf.function's traces are told apart by, beside its arguments.
FUNCTION_CONTEXT = private_names.member(
  "tensorflow.python.eager.polymorphic_function.function_context.make_function_context"
)

# The seed of random operations that run eagerly, the seeds that operations get from it, and its
# setting.
GLOBAL_SEED = private_names.member("tensorflow.python.eager.context.global_seed")
OPERATION_SEED = private_names.member(
  "tensorflow.python.eager.context.Context._internal_operation_seed"
)
SET_GLOBAL_SEED = private_names.member("tensorflow.python.eager.context.Context._set_global_seed")

# The operation that makes a variable, which one that is made eagerly does not have.
VARIABLE_OP = private_names.member(
  "tensorflow.python.ops.resource_variable_ops.BaseResourceVariable.op"
)
DISTRIBUTED_VARIABLE_OP = private_names.member(
  "tensorflow.python.distribute.values.DistributedVariable.op"
)

# Changes how variables are initialized, by an assignment map.
INIT_FROM_CHECKPOINT = private_names.member(
  "tensorflow.python.training.checkpoint_utils._init_from_checkpoint"
)

# What is used as it is.

AutomaticControlDependencies = private_names.find(
  "tensorflow.python.framework.auto_control_deps.AutomaticControlDependencies"
)
NoneTensorSpec = private_names.find("tensorflow.python.data.util.structure.NoneTensorSpec")
OneDeviceExtended = private_names.find(
  "tensorflow.python.distribute.one_device_strategy.OneDeviceExtended"
)
add_op_callback = private_names.find("tensorflow.python.framework.op_callbacks.add_op_callback")
UnliftableError = private_names.find("tensorflow.python.eager.lift_to_graph.UnliftableError")
lift_to_graph = private_names.find("tensorflow.python.eager.lift_to_graph.lift_to_graph")
remove_op_callback = private_names.find(
  "tensorflow.python.framework.op_callbacks.remove_op_callback"
)
xla_all_reduce = private_names.find("tensorflow.compiler.tf2xla.ops.gen_xla_ops.xla_all_reduce")
xla_replica_id = private_names.find("tensorflow.compiler.tf2xla.ops.gen_xla_ops.xla_replica_id")

_FuncGraph = private_names.find("tensorflow.python.framework.func_graph.FuncGraph")
_context = private_names.find("tensorflow.python.eager.context")
_OptionsDataset = private_names.find("tensorflow.python.data.ops.dataset_ops._OptionsDataset")
_PrefetchDataset = private_names.find("tensorflow.python.data.ops.prefetch_op._PrefetchDataset")
_tf2 = private_names.find("tensorflow.python.tf2")


# Variables and optimizers.


def handles(variable: tf.Variable) -> list[tf.Tensor]:
  """Those of a variable: one for each replica, and one for all where they are packed."""
  packed = getattr(variable, "_packed_var", None)
  of_replicas = [part.handle for part in getattr(variable, "_values", (variable,))]
  return of_replicas + ([] if packed is None else [packed.packed_handle])


def newest_loss_is_sum(graph: tf.Graph) -> bool:
  """Whether the newest loss that tf.compat.v1.losses made in a graph is a sum, not a mean."""
  return graph._last_loss_reduction in (tf.compat.v1.losses.Reduction.SUM, "sum")


# Savers.


def saved_by(saver: tf.compat.v1.train.Saver) -> Any:
  """The list of variables, or dict of name → variable, that it was given; None for all."""
  return saver._var_list


def kept_by(saver: tf.compat.v1.train.Saver) -> tuple[int | None, float]:
  """(max_to_keep, keep_checkpoint_every_n_hours)."""
  return saver._max_to_keep, saver._keep_checkpoint_every_n_hours


# Variables.


def primary(variable: tf.Variable) -> tf.Variable:
  """The first replica's part of a variable that has one for each."""
  return variable._primary


# The runtime.


def has_started() -> bool:
  """Whether this process has used TensorFlow, beyond importing it."""
  state = _context.context_safe()
  return state is not None and state._initialized


def is_eager_by_default() -> bool:
  """Whether operations run eagerly outside of all graphs; a program may have switched that off."""
  return _context.default_execution_mode == _context.EAGER_MODE


def has_v2_behavior() -> bool:
  """Whether tf.compat.v1.disable_v2_behavior() was not called."""
  return _tf2.enabled()


def single_thread() -> contextlib.AbstractContextManager:
  """Inside, functions that this thread calls are run by the executor of a single thread."""
  return _context.function_executor_type("SINGLE_THREADED_EXECUTOR")


def set_process_seed(seed: int) -> None:
  """Does what tf.random.set_seed does, but keeps the kernels, see `clear_kernels`."""
  state = _context.context()
  state._seed = seed
  state._rng = random.Random(int(seed))


def clear_kernels() -> None:
  """Throws away all kernels of operations that ran eagerly, and the state of the random ones."""
  _context.context().clear_kernel_cache()


# Graphs.


def function_named(graph: tf.Graph, name: str) -> Any:
  """The function of this name that a graph's operations call, with its `graph`; None if unknown."""
  return graph._get_function(name)


def swap_collections(graph: tf.Graph, collections):
  """Gives a graph other collections, a mapping of key → list; returns those that it had."""
  before, graph._collections = graph._collections, collections
  return before


def scratch_graph() -> tf.Graph:
  """A graph that no function runs, in which eager tensors and variables can be used."""
  return _FuncGraph("scratch")


def set_attribute(operation: tf.Operation, name: str, **value) -> None:
  """Sets an attribute of an operation to an AttrValue, such as `b=False` or `i=3`."""
  operation._set_attr(name, tf.compat.v1.AttrValue(**value))


# Data sets.


def ends_with_prefetch(dataset: tf.data.Dataset) -> bool:
  """Whether a data set's last stage, whatever options are set on it, is a prefetch."""
  while isinstance(dataset, _OptionsDataset):
    dataset = dataset._input_dataset
  return isinstance(dataset, _PrefetchDataset)


def inputs_of(dataset: tf.data.Dataset) -> list[tf.data.Dataset]:
  """The data sets that it is made of."""
  return dataset._inputs()


def batch_size_of(dataset: tf.data.Dataset) -> tf.Tensor:
  """That of the last stage, which is a batch."""
  return dataset._batch_size


def function_of(dataset: tf.data.Dataset) -> Callable | None:
  """The function that the last stage maps by; None if it has none."""
  return getattr(getattr(dataset, "_map_func", None), "_func", None)


def with_constants(function):
  """A ConcreteFunction with its variables' values as constants, and without calls of others."""
  return _FREEZE(function)
