"""The private names of TensorFlow that Octet uses, from 2.18 to 2.21. No other file uses them."""

import contextlib
import random
from collections.abc import Callable, Iterator, MutableMapping
from typing import Any

import tensorflow as tf

from trainer.internals import private_names

# The recurrent cells of TensorFlow 1, which `import tensorflow` includes.
RNN_CELLS = private_names.find("tensorflow.python.keras.layers.legacy_rnn.rnn_cell_impl")

# tf.layers of TensorFlow 1, without batch normalization. `import tensorflow` includes them too.
TF_LAYERS = private_names.find("tensorflow.python.keras.legacy_tf_layers.core")
TF_LAYERS_CONVOLUTIONAL = private_names.find(
  "tensorflow.python.keras.legacy_tf_layers.convolutional"
)
TF_LAYERS_POOLING = private_names.find("tensorflow.python.keras.legacy_tf_layers.pooling")

# Keras 2's optimizers.
KERAS_2_OPTIMIZERS = (
  private_names.find("tensorflow.python.keras.optimizer_v2.gradient_descent.SGD"),
  private_names.find("tensorflow.python.keras.optimizer_v2.adam.Adam"),
  private_names.find("tensorflow.python.keras.optimizer_v2.adagrad.Adagrad"),
  private_names.find("tensorflow.python.keras.optimizer_v2.ftrl.Ftrl"),
  private_names.find("tensorflow.python.keras.optimizer_v2.rmsprop.RMSprop"),
  private_names.find("tensorflow.python.keras.optimizer_v2.adadelta.Adadelta"),
  private_names.find("tensorflow.python.keras.optimizer_v2.adamax.Adamax"),
)

# Functions and classes of tf.contrib and tf.estimator that TensorFlow still has, and uses itself.
EXPORT_OUTPUTS = private_names.find("tensorflow.python.saved_model.model_utils.export_output")
LOOKUP_TABLES = private_names.find("tensorflow.python.ops.lookup_ops")
# A decorator of a function whose call logs that it will go: `deprecated(date, instructions)`.
deprecated = private_names.find("tensorflow.python.util.deprecation.deprecated")

# Functions that Octet replaces: (owner, name) for `patches.replaces`.

# Creates every operation of a function's graph.
CREATE_OPERATION = private_names.member(
  "tensorflow.python.framework.func_graph.FuncGraph._create_op_internal"
)

# tf.gradients, which also computes the gradients of tf.compat.v1's optimizers.
GRADIENTS = private_names.member("tensorflow.python.ops.gradients_util._GradientsHelper")

# Searches the graph behind the results of a tf.custom_gradient for variables.
DEPENDENT_VARIABLES = private_names.member(
  "tensorflow.python.ops.custom_gradient._get_dependent_variables"
)

# Ends the trace of a graph, and adds control dependencies to its operations.
ADD_CONTROL_DEPENDENCIES = private_names.member(
  "tensorflow.python.framework.auto_control_deps.AutomaticControlDependencies.__exit__"
)

# Brings an outside tensor into a function's graph; each captured tensor becomes an argument.
CAPTURE = private_names.member("tensorflow.python.framework.func_graph.FuncGraph.capture")

# The operation with which tf.compat.v1.train.AdamOptimizer updates a variable.
APPLY_ADAM = private_names.member("tensorflow.python.ops.gen_training_ops.resource_apply_adam")
# What that optimizer calls first in each apply_gradients.
PREPARE_ADAM = private_names.member("tensorflow.python.training.adam.AdamOptimizer._prepare")

# Counts the nonzero weights of a loss of tf.losses, the divisor of the loss.
COUNT_LOSSES = private_names.member("tensorflow.python.ops.losses.losses_impl._num_present")

# Assigns to a variable with copies on a replica, where the replicas have to agree on the value.
UPDATE_ON_REPLICA = private_names.member(
  "tensorflow.python.distribute.values.MirroredVariable._update_replica"
)

# Makes the part of a tf.function's cache key that does not depend on its arguments.
FUNCTION_CONTEXT = private_names.member(
  "tensorflow.python.eager.polymorphic_function.function_context.make_function_context"
)

# For random operations that run eagerly: the global seed, the seed of each operation, and the
# function that sets the global seed.
GLOBAL_SEED = private_names.member("tensorflow.python.eager.context.global_seed")
OPERATION_SEED = private_names.member(
  "tensorflow.python.eager.context.Context._internal_operation_seed"
)
SET_GLOBAL_SEED = private_names.member("tensorflow.python.eager.context.Context._set_global_seed")

# `variable.op`. An eager variable has no operation, and raises an error.
VARIABLE_OP = private_names.member(
  "tensorflow.python.ops.resource_variable_ops.BaseResourceVariable.op"
)
DISTRIBUTED_VARIABLE_OP = private_names.member(
  "tensorflow.python.distribute.values.DistributedVariable.op"
)

# The truth of a variable.
VARIABLE_BOOL = private_names.member(
  "tensorflow.python.ops.resource_variable_ops.BaseResourceVariable.__bool__"
)

# Changes the initializers of variables by an assignment map.
INIT_FROM_CHECKPOINT = private_names.member(
  "tensorflow.python.training.checkpoint_utils._init_from_checkpoint"
)

# Functions and classes that Octet uses unchanged.

AutomaticControlDependencies = private_names.find(
  "tensorflow.python.framework.auto_control_deps.AutomaticControlDependencies"
)
# The graphs of branches and loops; functions have others.
ControlFlowFuncGraph = private_names.find(
  "tensorflow.python.ops.control_flow_v2_func_graphs.ControlFlowFuncGraph"
)
NoneTensorSpec = private_names.find("tensorflow.python.data.util.structure.NoneTensorSpec")
OneDeviceExtended: Any = private_names.find(
  "tensorflow.python.distribute.one_device_strategy.OneDeviceExtended"
)
add_op_callback = private_names.find("tensorflow.python.framework.op_callbacks.add_op_callback")
UnliftableError = private_names.find("tensorflow.python.eager.lift_to_graph.UnliftableError")
lift_to_graph = private_names.find("tensorflow.python.eager.lift_to_graph.lift_to_graph")
is_op_determinism_enabled = private_names.find(
  "tensorflow.python.framework.config.is_op_determinism_enabled"
)
remove_op_callback = private_names.find(
  "tensorflow.python.framework.op_callbacks.remove_op_callback"
)
xla_all_reduce = private_names.find("tensorflow.compiler.tf2xla.ops.gen_xla_ops.xla_all_reduce")
xla_replica_id = private_names.find("tensorflow.compiler.tf2xla.ops.gen_xla_ops.xla_replica_id")
# Returns the next state, and random bits; its algorithm is a tf.random.Algorithm's value.
xla_rng_bit_generator = private_names.find(
  "tensorflow.compiler.tf2xla.ops.gen_xla_ops.xla_rng_bit_generator"
)

_FuncGraph = private_names.find("tensorflow.python.framework.func_graph.FuncGraph")
_convert_variables_to_constants = private_names.find(
  "tensorflow.python.framework.convert_to_constants.convert_variables_to_constants_v2"
)
_context = private_names.find("tensorflow.python.eager.context")
_xla_data = private_names.find("tensorflow.compiler.xla.xla_data_pb2")
_xla_dot = private_names.find("tensorflow.compiler.tf2xla.ops.gen_xla_ops.xla_dot_v2")
_OptionsDataset = private_names.find("tensorflow.python.data.ops.dataset_ops._OptionsDataset")
_PrefetchDataset = private_names.find("tensorflow.python.data.ops.prefetch_op._PrefetchDataset")
_tf2 = private_names.find("tensorflow.python.tf2")


# Variables and optimizers.


def handles(variable: tf.Variable) -> list[tf.Tensor]:
  """Returns a variable's resource handles.

  Returns:
    One handle for each replica's copy, and one more if TensorFlow packs the copies into one handle.
  """
  packed = getattr(variable, "_packed_var", None)
  of_replicas = [part.handle for part in getattr(variable, "_values", (variable,))]
  return of_replicas + ([] if packed is None else [packed.packed_handle])


def own_copy(variable: tf.Variable) -> tf.Variable:
  """Returns the copy that the current replica has of a variable."""
  return variable._get_on_device_or_primary()


def is_variable_handle(tensor: tf.Tensor) -> bool:
  """Returns whether a tensor is a variable's eager handle, not a table's or an iterator's."""
  if tensor.dtype != tf.resource or not hasattr(tensor, "numpy"):
    return False
  data = getattr(tensor, "_handle_data", None)
  return data is not None and data.is_set


def existing_handle(resource: Any) -> tf.Tensor | None:
  """Returns the handle of a TrackableResource; None if nobody has asked for it yet."""
  return getattr(resource, "_resource_handle", None)


def spec_of_handle(tensor: tf.Tensor) -> tf.TensorSpec | None:
  """Returns the shape and dtype of the variable that an eager tensor is the handle of, or None."""
  if not is_variable_handle(tensor):
    return None
  (found,) = tensor._handle_data.shape_and_type
  return tf.TensorSpec(tf.TensorShape(found.shape), tf.as_dtype(found.dtype))


def newest_loss_is_sum(graph: tf.Graph) -> bool:
  """Returns whether the last loss that tf.compat.v1.losses added to a graph is a sum."""
  return graph._last_loss_reduction in (tf.compat.v1.losses.Reduction.SUM, "sum")


# Savers.


def saved_by(saver: tf.compat.v1.train.Saver) -> Any:
  """Returns the var_list of a Saver: a list, a dict of name → variable, or None for all."""
  return saver._var_list


def kept_by(saver: tf.compat.v1.train.Saver) -> tuple[int | None, float]:
  """Returns a Saver's (max_to_keep, keep_checkpoint_every_n_hours)."""
  return saver._max_to_keep, saver._keep_checkpoint_every_n_hours


# Variables.


@contextlib.contextmanager
def optimizer_named(optimizer: tf.compat.v1.train.Optimizer, name: str) -> Iterator[None]:
  """Gives an optimizer another name in this context; the name appears in its slots."""
  given = optimizer._name
  optimizer._name = name
  try:
    yield
  finally:
    optimizer._name = given


def primary(variable: tf.Variable) -> tf.Variable:
  """Returns the first replica's copy of a distributed variable."""
  return variable._primary


# Summaries.


def write_event(writer: tf.summary.SummaryWriter, event: tf.compat.v1.Event) -> None:
  """Writes an event, with or without a summary, to a writer's file."""
  tf.raw_ops.ImportEvent(writer=writer._resource, event=event.SerializeToString())


# The runtime.


def has_started() -> bool:
  """Returns whether this process has run a TensorFlow operation."""
  state = _context.context_safe()
  return state is not None and state._initialized


def is_eager_by_default() -> bool:
  """Returns whether eager execution is on outside of graphs. A program may have disabled it."""
  return _context.default_execution_mode == _context.EAGER_MODE


def outside_graphs() -> contextlib.AbstractContextManager[None]:
  """Returns a context with eager execution, inside any graph."""
  return _context.eager_mode()


def has_v2_behavior() -> bool:
  """Returns False if the program has called tf.compat.v1.disable_v2_behavior()."""
  return _tf2.enabled()


def single_thread() -> contextlib.AbstractContextManager:
  """Returns a context in which this thread's functions run on the single-threaded executor."""
  return _context.function_executor_type("SINGLE_THREADED_EXECUTOR")


def set_process_seed(seed: int) -> None:
  """Sets the process's seed as tf.random.set_seed does, but keeps the kernels."""
  state = _context.context()
  state._seed = seed
  state._rng = random.Random(int(seed))


def clear_kernels() -> None:
  """Clears the cache of eager kernels.

  Random kernels restart from their seeds. Every tf.function pays its start-up time again.
  """
  _context.context().clear_kernel_cache()


# Graphs.


def function_named(graph: tf.Graph, name: str) -> Any:
  """Looks up a function that a graph's operations call.

  Returns:
    The function, with an attribute `graph`; None if the graph does not know it.
  """
  return graph._get_function(name)


def returned_tensors(dependencies: Any) -> list[tf.Tensor]:
  """Returns the results of a graph from the AutomaticControlDependencies of its trace."""
  return list(dependencies._returned_tensors)


def swap_collections(graph: tf.Graph, collections: MutableMapping) -> MutableMapping:
  """Replaces a graph's collections.

  Args:
    graph: the graph.
    collections: its new collections, key → list.

  Returns:
    The collections that it had.
  """
  before, graph._collections = graph._collections, collections
  return before


def scratch_graph() -> tf.Graph:
  """Returns an empty graph that never runs.

  Unlike a plain tf.Graph it captures eager tensors and variables.
  """
  return _FuncGraph("scratch")


def set_attribute(operation: tf.Operation, name: str, **value: Any) -> None:
  """Sets an attribute of an operation.

  Args:
    operation: the operation.
    name: the attribute's name.
    **value: a field of AttrValue and its value, such as `b=False` or `i=3`.
  """
  operation._set_attr(name, tf.compat.v1.AttrValue(**value))


def xla_exact_product(left: tf.Tensor, left_axis: int, right: tf.Tensor, right_axis: int) -> Any:
  """Multiplies two tensors along an axis of each, for XLA, in the precision of their dtype.

  A TPU multiplies float32 as bfloat16 unless a program asks for more.

  Args:
    left: a tensor.
    left_axis: the axis to sum over.
    right: a tensor of the same dtype.
    right_axis: the axis to sum over.

  Returns:
    The product: the other axes of the left tensor, then those of the right one.
  """
  highest = _xla_data.PrecisionConfig.HIGHEST
  return _xla_dot(
    left,
    right,
    _xla_data.DotDimensionNumbers(
      lhs_contracting_dimensions=[left_axis], rhs_contracting_dimensions=[right_axis]
    ).SerializeToString(),
    _xla_data.PrecisionConfig(operand_precision=[highest, highest]).SerializeToString(),
    preferred_element_type=left.dtype,
  )


# Datasets.


def ends_with_prefetch(dataset: tf.data.Dataset) -> bool:
  """Returns whether the last stage of a dataset, options aside, is a prefetch."""
  while isinstance(dataset, _OptionsDataset):
    dataset = dataset._input_dataset
  return isinstance(dataset, _PrefetchDataset)


def inputs_of(dataset: tf.data.Dataset) -> list[tf.data.Dataset]:
  """Returns the input datasets of a dataset's last stage."""
  return dataset._inputs()


def batch_size_of(dataset: tf.data.Dataset) -> tf.Tensor:
  """Returns the batch size (int64 scalar) of a dataset whose last stage is a batch."""
  return dataset._batch_size


def function_of(dataset: tf.data.Dataset) -> Callable | None:
  """Returns the Python function of a dataset's last stage, or None."""
  return getattr(getattr(dataset, "_map_func", None), "_func", None)


def with_constants(
  function: tf.types.experimental.ConcreteFunction,
) -> tf.types.experimental.ConcreteFunction:
  """Freezes a ConcreteFunction: variables become constants, calls become operations.

  Loops and branches stay one operation each: TensorFlow Lite, tf2onnx and OpenVINO know those.
  """
  return _convert_variables_to_constants(
    function, lower_control_flow=False, aggressive_inlining=True
  )
