"""Calls a model_fn: its arguments, and the checks of its result."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import tensorflow as tf

from trainer import errors, run_config, spec
from trainer.checkpoints import scaffolds
from trainer.inputs import elements
from trainer.optimization import averages
from trainer.programs import divided_losses, step_errors, suspect_shapes, unfetched
from trainer.reporting import summaries
from trainer.settings.kinds import Kind
from trainer.tracing import fetched_operations, variable_store


@dataclasses.dataclass
class ModelCalls:
  """Calls a model_fn.

  Attributes:
    model_fn: the model_fn.
    params: its params, without "batch_size".
    batch_sizes: kind → per-core batch size, for params["batch_size"]. If a kind is missing, as in
      an export, the params have no "batch_size".
    config: the run's configuration.
    store: all variables.
    traces: kind → number of calls.
  """

  model_fn: spec.ModelFn
  params: Mapping[str, Any]
  batch_sizes: Mapping[Kind, int]
  config: run_config.RunConfig
  store: variable_store.VariableStore
  traces: dict[Kind, int] = dataclasses.field(default_factory=lambda: dict.fromkeys(Kind, 0))
  _around: Callable = dataclasses.field(default=contextlib.nullcontext, init=False)
  _scaffold_fns: dict[Kind, scaffolds.ScaffoldFn | None] = dataclasses.field(
    default_factory=dict, init=False
  )

  @property
  def model_name(self) -> str:
    """The model_fn's name, for messages."""
    return self.model_fn.name

  def call_model_fn(self, kind: Kind, element: tuple) -> spec.EstimatorSpec:
    """Calls the model_fn, on the replica whose step is in trace; returns its result.

    Args:
      kind: the kind of step.
      element: features, and perhaps labels and example weights: tensors.

    Raises:
      ModelFnError: the model_fn failed; with its file and line, and the shapes of its input.
      SpecError: the result does not fit the kind of step.
    """
    self.traces[kind] += 1
    mode = spec.MODE_OF[kind]
    features, labels, sample_weight = (*element, None, None)[:3]
    # A copy: a model_fn that changes its params must not change those of the next replica.
    params = spec.copy_params(self.params)
    if kind in self.batch_sizes:
      params["batch_size"] = self.batch_sizes[kind]
    with (
      fetched_operations.record() as made,
      step_errors.of_model_fn(self.model_name, mode, element),
      self._around(),
    ):
      result = self.model_fn(features, labels, mode, params, self.config, sample_weight)
    # A model_fn of trainer.compat.v1 runs only fetched operations; train_op is always one of them.
    made.fetch(result.train_op)
    if kind == Kind.TRAIN:
      # All of these run in the step. Only the rest is worth a warning.
      pairs = [result.eval_metrics, result.host_call]
      tensors = [pair[1] for pair in pairs if pair]
      scalars = list(summaries.recorded().values())
      fetched = [result.train_op, result.loss, result.predictions, tensors, scalars]
      unfetched.warn(made, fetched, self.model_name)
    batch = elements.static_batch_size(features)
    _check(result, kind, batch, f"model_fn {self.model_name}, mode {mode!r}")
    suspect_shapes.warn(tf.compat.v1.get_default_graph(), batch, self.model_name)
    # One core alone trains on the quotient that the model_fn means.
    if kind == Kind.EVAL or (kind == Kind.TRAIN and self._joins_quotients()):
      divided_losses.warn(result.loss, element, self.model_name)
    # Only the first spec of a kind counts: Octet may have called its scaffold_fn already.
    if kind not in self._scaffold_fns:
      self._scaffold_fns[kind] = scaffolds.scaffold_fn_of(result, self.model_name)
    return result

  def call_scaffold_fn(self, kind: Kind) -> dict[str, str] | None:
    """Calls the scaffold_fn of a kind, once, and returns the names for its Saver's restore.

    Returns:
      Name of a variable → its name in checkpoints. None without a scaffold_fn or a Saver.

    Raises:
      ModelFnError: the scaffold_fn raised an error.
      SpecError: it did not return a Scaffold.
      SettingError: the Scaffold needs a feature that Octet does not support.
    """
    scaffold_fn = self._scaffold_fns.get(kind)
    return None if scaffold_fn is None else scaffold_fn.call_once(self.store, self.config)

  def _joins_quotients(self):
    """Whether a training step has several cores or accumulates."""
    return self.store.strategy.num_replicas_in_sync > 1 or any(
      name.startswith(averages.ACCUMULATED_SCOPE) for name in self.store.variables
    )

  @contextlib.contextmanager
  def wrapped(self, context: Callable[[], contextlib.AbstractContextManager]) -> Iterator[None]:
    """Enters a context around each call of the model_fn, on the replica's own thread.

    Args:
      context: function that returns a new context manager.
    """
    before, self._around = self._around, context
    try:
      yield
    finally:
      self._around = before


def _check(result, kind, batch, name):
  """Raises SpecError for a loss that is not a scalar, or an output without the batch axis."""
  if kind != Kind.PREDICT:
    if not tf.is_tensor(result.loss):
      raise errors.SpecError(f"{name}: the loss is {result.loss!r}: expected a scalar tensor.")
    if result.loss.shape.rank != 0:
      raise errors.SpecError(
        f"{name}: the loss has shape {result.loss.shape}: expected a scalar, as tf.reduce_mean "
        "gives."
      )
  what, tensors = "predictions", result.predictions
  if kind != Kind.PREDICT:
    metrics = result.eval_metrics if kind == Kind.EVAL else None
    what, tensors = "eval_metrics", metrics[1] if metrics else ()
  for path, tensor in elements.named_leaves((tensors,), [what]):
    shape = tf.convert_to_tensor(tensor).shape
    if shape.rank == 0 or (
      batch is not None and shape.rank and shape.as_list()[0] not in (None, batch)
    ):
      raise errors.SpecError(
        f"{name}: {path} has shape {shape}: its first axis must be the batch, of {batch} examples."
      )
