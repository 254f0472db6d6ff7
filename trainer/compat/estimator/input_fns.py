"""Calls a program's input_fns, which return a dataset or the tensors of a one-shot iterator.

If the input_fn asks an iterator for its next tensors, Octet calls the input_fn once more, in a
graph. In that call, the iterator returns placeholders. The input_fn's operations on the
placeholders become a function; Octet maps it over the iterator's dataset.
"""

import contextlib
import contextvars
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from trainer import errors, spec
from trainer.compat.graph_mode import habits, notes
from trainer.internals import patches

v1 = tf.compat.v1

_FED = "'SymbolicTensor' object has no attribute"
_OF_UNKNOWN_SIZE = "'NoneType' object has no attribute 'value'"


class _TensorsWanted(BaseException):
  """Ends the first call of an input_fn once it asks an iterator for tensors."""


class _Handout:
  """The iterators of an input_fn, and the placeholders that they returned."""

  def __init__(self):
    self.iterators: list[OneShotIterator] = []


_handout: contextvars.ContextVar[_Handout | None] = contextvars.ContextVar(
  "compat_handout", default=None
)
_is_first_call: contextvars.ContextVar[bool] = contextvars.ContextVar(
  "compat_first_call", default=False
)


class OneShotIterator:
  """An iterator over a dataset inside an input_fn.

  Attributes:
    dataset: the iterator's dataset.
    placeholders: the placeholders returned for the dataset's elements; None before the first.
    initializer: an operation without effect.
  """

  def __init__(self, dataset: tf.data.Dataset):
    self.dataset = dataset
    self.placeholders: Any = None

  def get_next(self, name: str | None = None) -> Any:
    """Returns placeholders for the next element, the same ones each time."""
    del name
    if _is_first_call.get():
      raise _TensorsWanted
    if self.placeholders is None:
      self.placeholders = tf.nest.map_structure(_placeholder, self.dataset.element_spec)
    # A new structure each time: programs take the label out of it, features.pop("label").
    return tf.nest.map_structure(lambda leaf: leaf, self.placeholders)

  @property
  def initializer(self) -> tf.Operation | None:
    return tf.no_op()

  @property
  def element_spec(self) -> Any:
    return self.dataset.element_spec

  @property
  def output_shapes(self) -> Any:
    return v1.data.get_output_shapes(self.dataset)

  @property
  def output_types(self) -> Any:
    return v1.data.get_output_types(self.dataset)


def make_one_shot_iterator(dataset: tf.data.Dataset, shared_name: str | None = None) -> Any:
  """In an input_fn, returns an iterator over a dataset; elsewhere TensorFlow's own."""
  handout = _handout.get()
  if handout is None:
    return iter(dataset) if tf.executing_eagerly() else _make_iterator(dataset)
  iterator = OneShotIterator(dataset)
  handout.iterators.append(iterator)
  return iterator


def make_initializable_iterator(dataset: tf.data.Dataset, shared_name: str | None = None) -> Any:
  """In an input_fn, returns an iterator over a dataset; elsewhere TensorFlow's own."""
  if _handout.get() is None:
    return _make_initializable(dataset, shared_name)
  return make_one_shot_iterator(dataset)


_make_iterator = v1.data.make_one_shot_iterator
_make_initializable = v1.data.make_initializable_iterator


@patches.replaces(v1.data.Dataset, "make_one_shot_iterator")
def _one_shot(original, self):
  return original(self) if _handout.get() is None else make_one_shot_iterator(self)


@patches.replaces(v1.data.Dataset, "make_initializable_iterator")
def _initializable(original, self, shared_name=None):
  if _handout.get() is None:
    return original(self, shared_name)
  return make_initializable_iterator(self)


# They return TensorFlow 2's Dataset, which makes no iterator.
_METHODS_OF_2 = (
  *("bucket_by_sequence_length", "enumerate", "group_by_window", "ignore_errors", "ragged_batch"),
  *("rebatch", "rejection_resample", "scan", "snapshot", "sparse_batch", "take_while", "unique"),
)


def _as_v1(original, self, *args, **kwargs):
  # DatasetV1.apply alone turns its function's result into TensorFlow 1's Dataset.
  return self.apply(lambda dataset: original(dataset, *args, **kwargs))


for _method in _METHODS_OF_2:
  patches.replaces(v1.data.Dataset, _method, inside=_handout)(_as_v1)


def _placeholder(like: Any) -> Any:
  if isinstance(like, tf.SparseTensorSpec):
    return v1.sparse_placeholder(like.dtype, like.shape.as_list())
  return v1.placeholder(like.dtype, like.shape)


@contextlib.contextmanager
def _handing_out(first_call: bool) -> Iterator[_Handout]:
  handout = _Handout()
  with patches.set_context(_handout, handout), patches.set_context(_is_first_call, first_call):
    yield handout


def call(input_fn: Callable, **arguments: Any) -> tf.data.Dataset:
  """Calls an input_fn with the arguments that it has.

  Args:
    input_fn: a function of some of mode, params, config and input_context.
    arguments: the values of these arguments.

  Returns:
    A dataset of features or of (features, labels), of known ranks.

  Raises:
    SpecError: the result cannot be an input.
  """
  return _with_ranks(_dataset(input_fn, arguments))


def _dataset(input_fn: Callable, arguments: dict[str, Any]) -> tf.data.Dataset:
  given = {name: value for name, value in arguments.items() if takes(input_fn, name)}
  try:
    with _handing_out(first_call=True):
      # First call eagerly, because most input_fns return a dataset. If this one asks for tensors,
      # call it again in a graph: eager tensors would be one batch, repeated for ever.
      result = _called(input_fn, given)
  except _TensorsWanted:
    return _of_tensors(input_fn, given)
  if isinstance(result, tf.data.Dataset):
    return _checked(result, input_fn)
  if isinstance(result, OneShotIterator):
    return _checked(result.dataset, input_fn)
  if result is None or not tf.nest.flatten(result):
    raise errors.SpecError(
      f"The input_fn {spec.name_of(input_fn)} returned {result!r}: expected a tf.data.Dataset, or "
      "features, or (features, labels)."
    )
  return _of_tensors(input_fn, given)


def _with_ranks(dataset: tf.data.Dataset) -> tf.data.Dataset:
  """Returns a dataset whose tensors have at least the rank of its first batch.

  The shapes after `from_generator` without shapes and after `tf.squeeze` are unknown; Octet needs
  to know which tensors have a batch axis.
  """
  structure = dataset.element_spec
  if not any(_is_of_unknown_rank(leaf) for leaf in tf.nest.flatten(structure)):
    return dataset
  shapes = [
    [None] * leaf.shape.rank if _is_of_unknown_rank(like) else None
    for first in dataset.take(1)
    for leaf, like in zip(tf.nest.flatten(first), tf.nest.flatten(structure), strict=True)
  ]

  def with_ranks(*element: Any) -> Any:
    leaves = zip(tf.nest.flatten(element), shapes, strict=True)
    flat = [leaf if shape is None else tf.ensure_shape(leaf, shape) for leaf, shape in leaves]
    return tf.nest.pack_sequence_as(structure, flat)

  return dataset.map(with_ranks) if shapes else dataset


def _is_of_unknown_rank(leaf: Any) -> bool:
  return isinstance(leaf, tf.TensorSpec) and leaf.shape.rank is None


def _called(input_fn: Callable, arguments: dict[str, Any]) -> Any:
  """Calls the input_fn. Unknown sizes are tf.Dimensions if the program asked for that."""
  with habits.enable_shapes():
    try:
      return input_fn(**arguments)
    except AttributeError as error:
      if _FED in str(error):
        raise errors.InputError(
          f"The input_fn {spec.name_of(input_fn)} makes a dataset of a tf.placeholder. Octet reads "
          "an input without a session: give the values to the dataset itself, as in "
          "Dataset.from_tensor_slices((x, y))."
        ) from error
      if habits.has_dimensions() or _OF_UNKNOWN_SIZE not in str(error):
        raise
      notes.tell_once(
        f"The input_fn {spec.name_of(input_fn)} asks an unknown size of a shape for its value: "
        "from now on such sizes are tf.Dimension, as tf.disable_v2_behavior() makes them."
      )
      habits.keep_dimensions(True)
      # Run it again from its start, with the new sizes.
      return input_fn(**arguments)


def takes(fn: Callable, name: str) -> bool:
  """Returns whether a function names this argument.

  TensorFlow gives **kwargs nothing: a program's wrapper hands them to its own function.
  """
  parameter = inspect.signature(fn).parameters.get(name)
  return parameter is not None and parameter.kind is not parameter.VAR_KEYWORD


def _of_tensors(input_fn: Callable, arguments: dict[str, Any]) -> tf.data.Dataset:
  """Returns the dataset of an input_fn that returns tensors."""
  made: list[Any] = []

  def build() -> list[tf.Tensor]:
    with _handing_out(first_call=False) as handout:
      result = _called(input_fn, arguments)
    # An iterator without a next element belongs to another part of the program.
    asked = [iterator for iterator in handout.iterators if iterator.placeholders is not None]
    made.append((_pair(result), asked))
    # A variant carries a dataset out of the graph, where from_variant opens it again.
    variants = [tf.data.experimental.to_variant(iterator.dataset) for iterator in asked]
    return variants + _tensors(_pair(result))

  # wrap_function, not tf.function: it keeps TensorFlow 1's collections and variables, and prune
  # cuts it into the datasets and the operations behind them.
  graph_function = v1.wrap_function(build, [])
  result, asked = made[0]
  count = len(asked)
  with graph_function.graph.as_default():
    tables = v1.get_collection(v1.GraphKeys.TABLE_INITIALIZERS)
  if tables:  # nothing runs them in a map, as a session's start would
    graph_function.prune([], tables)()
  variants = graph_function.prune([], graph_function.outputs[:count])() if count else []
  fed = tf.nest.flatten([i.placeholders for i in asked], expand_composites=True)
  tail = graph_function.prune(fed, graph_function.outputs[count:])
  datasets = [
    tf.data.experimental.from_variant(variant, iterator.element_spec)
    for variant, iterator in zip(variants, asked, strict=True)
  ]

  def of_elements(*elements: Any) -> Any:
    flat = tail(*tf.nest.flatten(elements, expand_composites=True))
    return tf.nest.pack_sequence_as(result, flat, expand_composites=True)

  if not datasets:  # each step runs the same graph, such as constants or random numbers
    return tf.data.Dataset.counter().map(lambda _: of_elements())
  return tf.data.Dataset.zip(tuple(datasets)).map(of_elements)


def _tensors(result: Any) -> list[tf.Tensor]:
  return [tf.convert_to_tensor(t) for t in tf.nest.flatten(result, expand_composites=True)]


def _pair(result: Any) -> Any:
  """Returns (features, labels) or features.

  A list of two, as some programs return it, is a pair too.
  """
  if isinstance(result, list) and len(result) == 2:
    result = tuple(result)
  if isinstance(result, tuple) and len(result) == 2 and result[1] is None:
    # A tuple of features stays one part of the element, not features and labels.
    result = (result[0],) if isinstance(result[0], tuple) else result[0]
  return tf.nest.map_structure(
    lambda leaf: leaf if isinstance(leaf, tf.SparseTensor) else tf.convert_to_tensor(leaf), result
  )


def _checked(dataset: tf.data.Dataset, input_fn: Callable) -> tf.data.Dataset:
  element = dataset.element_spec
  if isinstance(element, tuple) and not hasattr(element, "_fields") and len(element) != 2:
    raise errors.SpecError(
      f"The input_fn {spec.name_of(input_fn)} gives tuples of {len(element)}: expected features, "
      "or (features, labels)."
    )
  return dataset


def batch_size(dataset: tf.data.Dataset) -> int | None:
  """Returns a dataset's batch size from its shapes, or else from its first batch.

  None if the tensors of the first batch have different sizes.

  Raises:
    InputError: the dataset is empty.
  """
  # Shapes cost nothing; a first batch costs the start of the pipeline.
  for leaf in tf.nest.flatten(dataset.element_spec):
    if leaf.shape.rank and leaf.shape[0] is not None:
      return leaf.shape[0]
  for element in dataset.take(1):
    shapes = [
      leaf.dense_shape.numpy() if isinstance(leaf, tf.SparseTensor) else leaf.shape
      for leaf in tf.nest.flatten(element)
    ]
    sizes = {int(shape[0]) if len(shape) else None for shape in shapes}
    return sizes.pop() if len(sizes) == 1 else None
  raise errors.InputError("The input_fn gave no batch: its dataset is empty.")
