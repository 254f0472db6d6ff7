"""EstimatorSpec, the result of a model_fn, and the checked call of a model_fn.

Example:
    def model_fn(features, labels, mode, params):
      ...
      train_op = trainer.minimize(keras.optimizers.Adam(), loss)
      return trainer.EstimatorSpec(mode, loss=loss, train_op=train_op)
"""

import copy
import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trainer import errors
from trainer.settings.kinds import Kind


class ModeKeys:
  """The modes of a model_fn's calls."""

  TRAIN = "train"
  EVAL = "eval"
  PREDICT = "infer"


# A kind of run, as model_fns know it.
MODE_OF = {Kind.TRAIN: ModeKeys.TRAIN, Kind.EVAL: ModeKeys.EVAL, Kind.PREDICT: ModeKeys.PREDICT}

_NEEDED = {
  ModeKeys.TRAIN: ("loss", "train_op"),
  ModeKeys.EVAL: ("loss",),
  ModeKeys.PREDICT: ("predictions",),
}
_DEFAULT_SIGNATURE = "serving_default"
_RESERVED_METRICS = ("loss", "global_step")
_ARGUMENTS = ("features", "labels", "mode", "params", "config")
_WEIGHTS = "sample_weight"  # Given if there are weights.


@dataclasses.dataclass
class EstimatorSpec:
  """The result of a model_fn.

  Attributes:
    mode: one of ModeKeys.
    predictions: a tensor or dict of tensors with shape [batch, ...]; needed to predict and export.
    loss: scalar tensor, the mean over this replica's batch; needed to train and evaluate.
    train_op: the op that applies the gradients, such as `trainer.minimize(...)` or
      `optimizer.minimize(loss, global_step)`; needed to train.
    eval_metrics: `(metric_fn, tensors)`, tensors a list or dict with shapes [batch, ...]. Octet
      concatenates the tensors of all replicas, removes padding, and calls metric_fn with them on
      the host (with keywords for a dict). It returns a dict of updated Keras metrics or of
      `tf.compat.v1.metrics` pairs.
    export_outputs: dict of signature name → predictions; by default {"serving_default":
      predictions}. An export also serves a single output under another name as "serving_default".
      Of several outputs, one must have that name.
    scaffold_fn: returns a tf.compat.v1.train.Scaffold. Octet calls it once when a training begins
      without a checkpoint, and once for evaluation, for prediction and for each export. See
      `trainer.checkpoints.scaffolds` for the supported parts of a Scaffold.
    host_call: `(fn, tensors)`, tensors of rank ≥ 1, concatenated over the replicas. Octet calls fn
      with them on the host.
    training_hooks: hooks that the model adds to a training.
    evaluation_hooks: hooks that the model adds to an evaluation.
    prediction_hooks: hooks that the model adds to a prediction.
    export_methods: dict of signature name → "classify" or "regress", for the export_outputs that
      TensorFlow Serving calls with these methods. If the serving_input_receiver_fn receives
      serialised Examples (one string tensor), these signatures take them as "inputs".

  Raises:
    SettingError: the mode is unknown, eval_metrics or host_call do not fit their function, or
      export_outputs have no default.
    SpecError: the mode needs a missing part.
  """

  mode: str
  predictions: Any = None
  loss: Any = None
  train_op: Any = None
  eval_metrics: tuple[Callable, Sequence | Mapping] | None = None
  export_outputs: Mapping[str, Any] | None = None
  scaffold_fn: Callable | None = None
  host_call: tuple[Callable, Sequence | Mapping] | None = None
  training_hooks: Sequence | None = None
  evaluation_hooks: Sequence | None = None
  prediction_hooks: Sequence | None = None
  export_methods: Mapping[str, str] | None = None

  def __post_init__(self) -> None:
    if self.mode not in _NEEDED:
      raise errors.SettingError(
        f"EstimatorSpec: mode is {self.mode!r}; expected one of "
        f"{', '.join(map(repr, _NEEDED))} (trainer.ModeKeys)."
      )
    missing = [name for name in _NEEDED[self.mode] if getattr(self, name) is None]
    if missing:
      makes = (
        " trainer.minimize(optimizer, loss) makes a train_op." if "train_op" in missing else ""
      )
      raise errors.SpecError(
        f"EstimatorSpec: mode {self.mode!r} needs {' and '.join(missing)}.{makes}"
      )
    for name in ("eval_metrics", "host_call"):
      if getattr(self, name) is not None:
        _check_host_function(name, getattr(self, name))
    if self.mode == ModeKeys.PREDICT:
      self.served_outputs()

  def served_outputs(self) -> dict[str, Any]:
    """Returns signature name → predictions of an export, always with a "serving_default".

    Raises:
      SettingError: export_outputs is empty or not a dict, or it has several entries and none is
        "serving_default".
    """
    outputs = self.export_outputs
    if outputs is None:
      return {_DEFAULT_SIGNATURE: self.predictions}
    if not isinstance(outputs, Mapping) or not outputs:
      raise errors.SettingError(
        "EstimatorSpec: export_outputs must be a dict of signature name → "
        f"predictions; got {outputs!r}."
      )
    outputs = dict(outputs)
    if len(outputs) == 1:
      outputs.setdefault(_DEFAULT_SIGNATURE, *outputs.values())
    if _DEFAULT_SIGNATURE not in outputs:
      raise errors.SettingError(
        f"EstimatorSpec: export_outputs has {', '.join(map(repr, outputs))}, and no default: name "
        f"one {_DEFAULT_SIGNATURE!r}, the signature of a request that names none."
      )
    return outputs


TPUEstimatorSpec = EstimatorSpec


def _check_host_function(name, pair):
  if not (isinstance(pair, tuple | list) and len(pair) == 2 and callable(pair[0])):
    raise errors.SettingError(
      f"EstimatorSpec: {name} must be a pair (function, tensors); got {pair!r}."
    )
  fn, tensors = pair
  if not isinstance(tensors, Mapping | list | tuple):
    raise errors.SettingError(
      f"EstimatorSpec: the tensors of {name} must be a list or a dict; got "
      f"{type(tensors).__name__}."
    )
  # Check as soon as the model_fn returns. The function itself runs later, and its TypeError would
  # not name eval_metrics or host_call.
  try:
    signature = inspect.signature(fn)
  except ValueError:  # Some built-in functions have none.
    return
  try:
    signature.bind(**tensors) if isinstance(tensors, Mapping) else signature.bind(*tensors)
  except TypeError as error:
    given = (
      f"keywords {sorted(tensors)}" if isinstance(tensors, Mapping) else f"{len(tensors)} tensors"
    )
    raise errors.SettingError(
      f"EstimatorSpec: {name} gives {given} to {name_of(fn)}{signature}: {error}."
    ) from error


def check_metrics(metrics: Any) -> None:
  """Checks the result of a metric_fn.

  Raises:
    SpecError: it is not a dict.
    SettingError: a metric has a reserved name.
  """
  if not isinstance(metrics, Mapping):
    raise errors.SpecError(
      "eval_metrics: metric_fn must return a dict of name → metric; it "
      f"returned {type(metrics).__name__}."
    )
  taken = sorted(set(metrics) & set(_RESERVED_METRICS))
  if taken:
    raise errors.SettingError(
      f"eval_metrics: Octet itself reports {', '.join(_RESERVED_METRICS)}; rename the metric "
      f"{taken[0]!r}."
    )


class ModelFn:
  """A user's model_fn: checks its arguments once and then passes them by name.

  Args:
    fn: a callable that takes features and may take labels, mode, params and config. Further
      arguments need defaults, or values from gin. If the dataset has example weights, fn gets them
      as `sample_weight`, also with a default.

  Raises:
    SettingError: fn does not fit.
  """

  def __init__(self, fn: Callable[..., Any]) -> None:
    if not callable(fn):
      raise errors.SettingError(
        f"model_fn must be callable; got {fn!r}. In gin: run.model_fn = "
        "@my_model.model_fn (without brackets)."
      )
    self.name = name_of(fn)
    module = getattr(getattr(fn, "func", fn), "__module__", None) or ""
    self.full_name = f"{module.rpartition('.')[2]}.{self.name}".lstrip(".")  # digits_mlp.model_fn
    self._fn = fn
    parameters = inspect.signature(fn).parameters
    needed = parameters_without_default(parameters)
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    self._arguments = [name for name in _ARGUMENTS if name in parameters or takes_any]
    self._takes_weights = _WEIGHTS in parameters or takes_any
    self._further = [name for name in needed if name not in _ARGUMENTS]
    if self._further and not hasattr(fn, "__wrapped__"):  # gin gives values to what it wraps
      raise self._missing()
    if "features" not in self._arguments:
      raise errors.SettingError(f"model_fn {self.name} must take the argument 'features'.")

  def check_params(self, params: Mapping[str, Any] | None) -> None:
    """Checks the params of fn.

    Raises:
      SettingError: they are not a dict, fn does not take params, or a param has a name that Octet
        uses.
    """
    if not isinstance(params, Mapping | None):
      raise errors.SettingError(f"params is {params!r}; expected a dict (run.params in gin).")
    reserved = sorted({"batch_size", "context"} & set(params or {}))
    if reserved:
      raise errors.SettingError(
        f"params has the reserved key {reserved[0]!r}: the framework sets it."
      )
    if params and "params" not in self._arguments:
      raise errors.SettingError(
        f"model_fn {self.name} does not take 'params', and the caller gives params "
        f"{sorted(params)}."
      )

  def __call__(
    self,
    features: Any,
    labels: Any,
    mode: str,
    params: Mapping[str, Any] | None,
    config: Any,
    sample_weight: Any = None,
  ) -> EstimatorSpec:
    """Calls fn with the arguments that it takes.

    Args:
      features: nest of tensors with shapes [batch, ...].
      labels: as features, or None.
      mode: one of ModeKeys.
      params: the user's settings.
      config: the RunConfig.
      sample_weight: example weights, or None.

    Raises:
      SettingError: there are labels or weights, and fn does not take them.
      SpecError: fn did not return an EstimatorSpec of this mode.
    """
    given = dict(features=features, labels=labels, mode=mode, params=params, config=config)
    if labels is not None and "labels" not in self._arguments:
      raise errors.SettingError(
        f"model_fn {self.name} does not take 'labels', and the input_fn gives labels."
      )
    arguments = {name: given[name] for name in self._arguments}
    if sample_weight is not None:
      if not self._takes_weights:
        raise errors.SettingError(
          f"model_fn {self.name} does not take {_WEIGHTS!r}, and the examples have weights (of the "
          "input_fn, RunConfig.class_weight or RunConfig.weight_column): give it the argument "
          f"`{_WEIGHTS}=None`, and weight its loss."
        )
      arguments[_WEIGHTS] = sample_weight
    try:
      spec = self._fn(**arguments)
    except TypeError as error:
      if self._further and "required" in str(error) and repr(self._further[0]) in str(error):
        raise self._missing() from error
      raise
    if not isinstance(spec, EstimatorSpec):
      raise errors.SpecError(
        f"model_fn {self.name} must return a trainer.EstimatorSpec in mode "
        f"{mode!r}; it returned {_described(spec)}."
      )
    if spec.mode != mode:
      raise errors.SpecError(
        f"model_fn {self.name} returned an EstimatorSpec of mode {spec.mode!r} in mode {mode!r}."
      )
    return spec

  def _missing(self):
    return errors.SettingError(
      f"model_fn {self.name} has the argument {self._further[0]!r} without a value: expected "
      f"{', '.join(_ARGUMENTS)}, a default value, or a value from gin."
    )


def parameters_without_default(parameters: Mapping[str, inspect.Parameter]) -> list[str]:
  """Returns the names of a function's parameters without a default."""
  return [
    name
    for name, parameter in parameters.items()
    if parameter.default is parameter.empty
    and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
  ]


def copy_params(params: Mapping[str, Any] | None) -> dict[str, Any]:
  """Returns a deep copy of params, so that a function's changes stay its own.

  Raises:
    SettingError: it cannot copy a value.
  """
  try:
    return copy.deepcopy(dict(params or {}))
  except Exception as error:  # Of a value's own __deepcopy__, whatever it is.
    raise errors.SettingError(
      f"Octet cannot copy a value of params ({error}): give its parts, and build it in the "
      "model_fn or input_fn."
    ) from error


def name_of(fn: Any) -> str:
  """Returns a name for messages, also for partials and callable objects."""
  fn = getattr(fn, "func", fn)
  return getattr(fn, "__qualname__", None) or getattr(fn, "__name__", None) or type(fn).__name__


def _described(value):
  return (
    "None (missing return statement?)"
    if value is None
    else f"{type(value).__name__}: {value!r}"[:200]
  )
