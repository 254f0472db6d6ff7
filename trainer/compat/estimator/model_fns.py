"""Makes Octet's model_fn from a program's model_fn: converts arguments and the spec."""

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

import trainer
from trainer import errors, spec
from trainer.compat.estimator import batch_axes, export, input_fns, program_state, strategies
from trainer.compat.estimator.specs import EstimatorSpec, TPUEstimatorSpec
from trainer.compat.graph_mode import (
  fetches,
  habits,
  host_calls,
  keras_names,
  layer_calls,
  loss_counts,
  metric_pairs,
  notes,
  scaffold_init,
  session_hooks,
  small_updates,
  summary,
)
from trainer.reporting import summaries
from trainer.tracing import fetched_operations

# Imported for their replacements, which must be in place when the first trace begins. If the
# model_fn itself imported such a module, its replacements would come too late.
del layer_calls, loss_counts, small_updates

ModeKeys = trainer.ModeKeys
v1 = tf.compat.v1

_ARGUMENTS = ("features", "labels", "mode", "params", "config")


def adapt(
  model_fn: Callable,
  *,
  config: Any,
  make_params: Callable[[Mapping[str, Any], str], Any],
  given_hooks: Callable[[str], fetches.GivenHooks],
  state: program_state.ProgramState,
  take_predictions_whole: Callable[[], None],
) -> Callable:
  """Returns a model_fn for trainer.Estimator.

  Args:
    model_fn: the program's function of any of features, labels, mode, params and config.
    config: the model_fn's RunConfig.
    make_params: function from Octet's dict of params and the mode to the program's params.
    given_hooks: function of a mode that returns the hooks given to train or evaluate.
    state: the state that the model_fn keeps.
    take_predictions_whole: called for predictions without a row for each example; raises an error
      if the prediction begins again, with whole batches.

  Raises:
    SettingError: model_fn is not callable.
  """
  if not callable(model_fn):
    raise errors.SettingError(f"model_fn must be callable; got {model_fn!r}.")
  taken = [name for name in _ARGUMENTS if input_fns.takes(model_fn, name)]
  due: list[tuple[Any, Any]] = []  # the deferred runs of a Scaffold's init_fn

  def octet_model_fn(features, labels, mode, params):
    if labels is not None and "labels" not in taken:
      raise errors.SettingError(
        f"model_fn {spec.name_of(model_fn)} does not take labels, but the input_fn returns labels."
      )
    # Before the conversion: a transposed feature has its batch on the last axis again.
    batch = _batch(features)
    is_whole = batch_axes.is_whole(features)
    features, labels = batch_axes.as_given((features, labels))
    given = dict(
      features=features, labels=labels, mode=mode, params=make_params(params, mode), config=config
    )
    with (
      habits.enable(),
      strategies.in_mode(config, mode),
      keras_names.model_fn_scope(),
      metric_pairs.defer_metrics(mode != ModeKeys.TRAIN),
      summary.model_fn_tags(),
      state.call(mode),
    ):
      # A session ran only what a fetch needed. A native model_fn of Octet runs every assignment.
      fetched_operations.run_only_fetched()
      made = model_fn(**{name: given[name] for name in taken})
      # A session ran the initializers once, before the first step. Here they run in each step,
      # before the look-ups.
      fetched_operations.fetch(v1.get_collection(v1.GraphKeys.TABLE_INITIALIZERS))
      # An export's params have no batch_size, and it calls no hooks.
      hooks = given_hooks(mode) if "batch_size" in params else None
      found = _octet_spec(made, mode, batch, hooks, due)
    if mode == ModeKeys.PREDICT and hooks and isinstance(found, trainer.EstimatorSpec):
      if is_whole:
        found.predictions = tf.nest.map_structure(lambda one: one[tf.newaxis], found.predictions)
      elif isinstance(batch, int) and not _have_rows(found.predictions, batch):
        take_predictions_whole()
    return found

  octet_model_fn.__qualname__ = spec.name_of(model_fn)
  return octet_model_fn


def _octet_spec(
  made: Any,
  mode: str,
  batch: Any,
  given_hooks: fetches.GivenHooks | None,
  due: list[tuple[Any, Any]],
) -> Any:
  """Returns a trainer.EstimatorSpec for a model_fn's result; leaves other types to Octet."""
  if not isinstance(made, EstimatorSpec | TPUEstimatorSpec):
    return made
  eval_metrics = host_call = training_hooks = evaluation_hooks = prediction_hooks = None
  scaffold_fn = scaffold_init.scaffold_fn(made, due)
  if mode == ModeKeys.EVAL:
    if made.eval_metrics is not None:
      eval_metrics = metric_pairs.of_metric_fn(*made.eval_metrics, batch)
    elif made.eval_metric_ops:
      eval_metrics = metric_pairs.eval_metrics(made.eval_metric_ops, batch)
    eval_metrics, evaluation_hooks = fetches.attach_to_eval_metrics(
      eval_metrics, list(made.evaluation_hooks or ()), given_hooks, made, batch
    )
  if mode == ModeKeys.PREDICT and given_hooks is not None:
    given_hooks.attach()
    prediction_hooks = session_hooks.adapt(made.prediction_hooks)
    for hook in prediction_hooks:
      session_hooks.attach(hook, None)
  if mode == ModeKeys.TRAIN:
    hooks = [*(made.training_hooks or ()), *(made.training_chief_hooks or ())]
    if scaffold_fn is not None:
      # First: the hooks of the program may read the variables in their first call.
      hooks.insert(0, scaffold_init.RunsDue(due))
    host_call, training_hooks = fetches.attach_to_host_call(
      # The order matters: the host_call gets the hooks' tensors, so the spec needs the wrapped one.
      host_calls.keeping_variables(made.host_call),
      hooks,
      given_hooks,
      made,
    )
    _leave_out_scalars([made.train_op, made.loss, host_call and host_call[1]])
  predictions = made.predictions
  outputs = _outputs(made.export_outputs)
  # TensorFlow exports a spec without predictions; Octet needs some to predict.
  if predictions is None and outputs and mode == ModeKeys.PREDICT:
    predictions = next(iter(outputs.values()))
  return trainer.EstimatorSpec(
    mode,
    predictions=predictions,
    loss=None if made.loss is None else _scalar(made.loss),
    train_op=made.train_op if mode == ModeKeys.TRAIN else None,
    eval_metrics=eval_metrics,
    export_outputs=outputs,
    export_methods=_methods(made.export_outputs),
    scaffold_fn=scaffold_fn,
    host_call=host_call,
    training_hooks=training_hooks or None,
    evaluation_hooks=evaluation_hooks or None,
    prediction_hooks=prediction_hooks or None,
  )


def _leave_out_scalars(fetched: Any) -> None:
  """Drops scalars whose computation changes variables.

  Octet computes scalars in each step. A session ran a summary every save_summary_steps, or never if
  nobody fetched its collection.
  """
  scalars = summaries.recorded()
  anyway = fetched_operations.changes(fetched)
  if fetched_operations.changes(list(scalars.values())) <= anyway:
    return
  for tag, value in list(scalars.items()):
    if more := fetched_operations.changes(value) - anyway:
      del scalars[tag]
      notes.tell_once(
        f"Octet does not write the summary {tag!r}: computing it changes variables "
        f"({next(iter(more)).name}), and train_op does not change them. Let train_op depend on "
        "that operation."
      )


def _batch(features: Any) -> Any:
  leaf = tf.nest.flatten(features, expand_composites=False)[0]
  if isinstance(leaf, tf.SparseTensor):
    return tf.cast(leaf.dense_shape[0], tf.int32)
  size = leaf.shape.as_list()[0]  # shape[0] may be an object of the program
  return tf.shape(leaf)[0] if size is None else int(size)


def _have_rows(predictions: Any, batch: int) -> bool:
  """Returns whether each prediction has a row for each example."""
  shapes = [tf.convert_to_tensor(leaf).shape for leaf in tf.nest.flatten(predictions)]
  return all(shape.rank is None or shape.as_list()[:1] == [batch] for shape in shapes)


def _scalar(loss: Any) -> tf.Tensor:
  loss = tf.convert_to_tensor(loss)
  # Programs return a loss of shape [1]; 2.15 accepted it too.
  return loss if loss.shape.rank == 0 else tf.reshape(loss, [])


def _outputs(export_outputs: Mapping[str, Any] | None) -> dict[str, Any] | None:
  if not export_outputs:
    return None
  return {
    name: export.signature(output) if isinstance(output, export.ExportOutput) else output
    for name, output in export_outputs.items()
  }


def _methods(export_outputs: Mapping[str, Any] | None) -> dict[str, str]:
  """Returns TensorFlow Serving's method names of the signatures other than predict."""
  outputs = dict(export_outputs or {})
  if len(outputs) == 1:  # a single output is the default too
    outputs.setdefault("serving_default", *outputs.values())
  methods = {name: export.method(output) for name, output in outputs.items()}
  return {name: method for name, method in methods.items() if method}
