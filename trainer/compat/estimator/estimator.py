"""tf.estimator.Estimator and TPUEstimator, on trainer.Estimator.

An Estimator gets no batch size: the input_fn decides it. Octet needs the size before it traces the
model_fn. So each call reads the size from the dataset, and makes a new trainer.Estimator if the
size has changed. A TPUEstimator gets its sizes from the program. If the batches have another size,
the call begins again with theirs.
"""

import contextlib
import dataclasses
import os
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

import trainer
from trainer import errors, spec
from trainer import run_config as octet_config
from trainer.compat.estimator import (
  input_fns,
  meta_files,
  model_fns,
  program_errors,
  program_state,
  reading,
  run_config,
  sparse_inputs,
)
from trainer.compat.estimator import params as params_lib
from trainer.compat.graph_mode import fetches, notes, session_hooks
from trainer.compat.graph_mode import listeners as listeners_lib

v1 = tf.compat.v1

# Attributes of trainer.Estimator, on the class and on its objects.
_OF_OCTET = {name for name in dir(trainer.Estimator) if not name.startswith("_")}
_OF_OCTET |= {"device", "watchdog", "workers"}


class Estimator(reading.Reading):
  """A program's Estimator. Arguments, methods and results as in 2.15.

  Args:
    model_fn: `model_fn(features, labels, mode, params, config)`, or a function of fewer of these
      arguments.
    model_dir: the output folder; default: config.model_dir, or a temporary folder.
    config: a RunConfig.
    params: of any kind: a dict, HParams, an argparse.Namespace. Functions get copies of params.
    warm_start_from: a path or WarmStartSettings.
  """

  _use_tpu = False

  def __init__(
    self,
    model_fn: Callable,
    model_dir: str | None = None,
    config: run_config.RunConfig | None = None,
    params: Any = None,
    warm_start_from: Any = None,
  ):
    self._given_model_fn = model_fn
    self._state = program_state.ProgramState(model_fn)
    self._params = params_lib.copied(params)
    self.warm_start_from = warm_start_from
    config = _as_config(config)
    given = [octet_config.absolute_dir(each) for each in (model_dir, config.model_dir) if each]
    if len(set(given)) > 1:
      raise ValueError(
        f"model_dir is {model_dir!r}, and config.model_dir is {config.model_dir!r}: set one."
      )
    chosen = model_dir or config.model_dir
    if not chosen:
      chosen = tempfile.mkdtemp()
      notes.tell_once(f"Using temporary folder as model directory: {chosen}")
    self._config = config.replace(model_dir=octet_config.absolute_dir(chosen))
    _check_arguments(model_fn, params)
    self._sizes: dict[str, int] = {}  # kind → batch size of all cores together
    self._whole: set[str] = set()
    self._runners: dict[tuple, trainer.Estimator] = {}  # sizes → trainer.Estimator
    self._given_hooks: dict[str, fetches.GivenHooks] = {}
    self._trainings = 0
    self._is_training = False

  # ------------------------------------------------------------------ properties

  @property
  def model_dir(self) -> str:
    return self._config.model_dir

  @property
  def config(self) -> run_config.RunConfig:
    return self._config

  @property
  def params(self) -> Any:
    return params_lib.copied(self._params)

  @property
  def model_fn(self) -> Callable:
    """Returns the model_fn with bound params, as in 2.15."""
    given = self._given_model_fn

    def public_model_fn(features, labels, mode, config):
      arguments = dict(labels=labels, mode=mode, params=self.params, config=config)
      return given(features, **{k: v for k, v in arguments.items() if input_fns.takes(given, k)})

    return public_model_fn

  def _call_model_fn(self, features: Any, labels: Any, mode: str, config: Any) -> Any:
    """Returns the model_fn's result for tensors of the caller's graph."""
    if labels is not None and not input_fns.takes(self._model_fn, "labels"):
      raise ValueError("model_fn does not take labels, but input_fn returns labels.")
    return self.model_fn(features, labels, mode, config)

  @property
  def _model_fn(self) -> Callable:
    """The program's model_fn. Wrappers of Estimators call it, and replace it."""
    return self._given_model_fn

  @_model_fn.setter
  def _model_fn(self, model_fn: Callable) -> None:
    self._given_model_fn = model_fn
    self._state = program_state.ProgramState(model_fn)
    self._runners.clear()  # they have traced the previous model_fn

  @property
  def octet(self) -> trainer.Estimator:
    """Returns the trainer.Estimator behind this Estimator."""
    key = tuple(sorted(self._sizes.items()))
    if key not in self._runners:
      self._runners[key] = self._make_runner()
    return self._runners[key]

  @program_errors.of_program()
  def _make_runner(self) -> trainer.Estimator:
    config = self._config.octet(self._use_tpu)
    kinds = trainer.InputPipelineConfig
    training = kinds.PER_HOST_V1 if self._gives_host_batches else kinds.PER_HOST_V2
    tpu_config = dataclasses.replace(config.tpu_config, per_host_input_for_training=training)
    model_fn = model_fns.adapt(
      self._given_model_fn,
      config=self._config,
      make_params=self._make_params,
      given_hooks=lambda mode: self._given_hooks.get(mode) or fetches.GivenHooks([]),
      state=self._state,
      take_predictions_whole=self._take_predictions_whole,
    )
    return trainer.Estimator(
      model_fn,
      config=dataclasses.replace(config, tpu_config=tpu_config, static_shapes=False),
      params=self._octet_params,
      warm_start_from=self.warm_start_from,
      **{f"{kind}_batch_size": size for kind, size in self._sizes.items()},
    )

  def __getattr__(self, name: str) -> Any:
    """Returns attributes of trainer.Estimator: device, checkpoint_steps, save_checkpoint, ..."""
    # No other name: `self.octet` connects the device, and hasattr must not.
    if name not in _OF_OCTET:
      raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
    return getattr(self.octet, name)

  def hold_model_dir(self) -> contextlib.AbstractContextManager[None]:
    """Returns an empty context.

    Each training locks the folder itself, because another trainer.Estimator may run it.
    """
    return contextlib.nullcontext()

  @program_errors.of_program()
  def get_variable_names(self) -> list[str]:
    return self.octet.get_variable_names()

  @program_errors.of_program()
  def get_variable_value(self, name: str) -> Any:
    return self.octet.get_variable_value(name.removesuffix(":0"))

  def latest_checkpoint(self) -> str | None:
    return self.octet.latest_checkpoint()

  def eval_dir(self, name: str | None = None) -> str:
    return os.path.join(self.model_dir, f"eval_{name}" if name else "eval")

  # ------------------------------------------------------------------ calls

  @program_errors.of_program()
  def train(
    self,
    input_fn: Callable,
    hooks: Any = None,
    steps: int | None = None,
    max_steps: int | None = None,
    saving_listeners: Any = None,
    **more: Any,
  ) -> "Estimator":
    """Trains; see trainer.Estimator.train. Also deals with what 2.15 wrote beside checkpoints."""
    adapted = self._adapted(trainer.ModeKeys.TRAIN, hooks)
    steps, max_steps = reading.whole_steps(steps), reading.whole_steps(max_steps)
    reader = self._reader("train", input_fn)
    self._trainings += 1
    listeners: list[Any] = [
      listeners_lib.Listener(one, lambda: self.octet.variables) for one in saving_listeners or []
    ]
    if self._config.checkpoint_save_graph_def:  # before others look at the files
      listeners.insert(0, meta_files.MetaFiles(self.model_dir, lambda: self.octet.variables))
    self._is_training = True
    try:
      self._run(lambda: self.octet.train(reader, adapted, steps, max_steps, listeners, **more))
    finally:
      self._is_training = False
    return self

  @program_errors.of_program()
  def evaluate(
    self,
    input_fn: Callable,
    steps: int | None = None,
    hooks: Any = None,
    checkpoint_path: str | None = None,
    name: str | None = None,
  ) -> dict[str, Any]:
    """Evaluates; see trainer.Estimator.evaluate. Numbers are numpy's: result["loss"].item()."""
    adapted = self._adapted(trainer.ModeKeys.EVAL, hooks)
    steps = reading.whole_steps(steps)
    if self._is_without_size("eval"):  # the reader cuts to the steps
      each = 1 if self._config.eval_distribute is None else self._connect().replicas
      reader, steps = self._reader("eval", input_fn, steps and steps * each), None
    else:
      reader = self._reader("eval", input_fn)
    values = self._run(lambda: self.octet.evaluate(reader, steps, adapted, checkpoint_path, name))
    return {key: _as_numpy(value) for key, value in values.items()}

  @program_errors.of_program()
  def predict(
    self,
    input_fn: Callable,
    predict_keys: Any = None,
    hooks: Any = None,
    checkpoint_path: str | None = None,
    yield_single_examples: bool = True,
  ) -> Iterator[Any]:
    """Predicts; see trainer.Estimator.predict."""
    keys = [predict_keys] if isinstance(predict_keys, str) else predict_keys
    adapted = self._adapted(trainer.ModeKeys.PREDICT, hooks)
    reader = self._reader("predict", input_fn)

    def predict():
      one_by_one = yield_single_examples or "predict" in self._whole
      return self.octet.predict(reader, keys, adapted, checkpoint_path, one_by_one)

    found = self._run(predict)
    if yield_single_examples and "predict" in self._whole:
      found = _rows_of(found)
    if session_hooks.needs_trace(adapted):  # no other call may share the variables that they assign
      self._runners.clear()
    return program_errors.each_of_program(found)

  @program_errors.of_program()
  def export_saved_model(
    self,
    export_dir_base: str,
    serving_input_receiver_fn: Callable,
    assets_extra: Any = None,
    as_text: bool = False,
    checkpoint_path: str | None = None,
    experimental_mode: str = trainer.ModeKeys.PREDICT,
  ) -> bytes:
    """Exports; see trainer.Estimator.export_saved_model. Returns the path as bytes."""
    if as_text:
      notes.tell_once("export_saved_model(as_text=True): Octet writes a SavedModel in binary form.")
    if experimental_mode != trainer.ModeKeys.PREDICT:
      raise errors.SettingError("export_saved_model: Octet can export only mode PREDICT.")
    self._state.begin(trainer.ModeKeys.PREDICT)
    receiver_fn = sparse_inputs.received_as_rows(serving_input_receiver_fn)
    return self.octet.export_saved_model(
      export_dir_base, receiver_fn, assets_extra, checkpoint_path
    ).encode()

  def export_savedmodel(
    self,
    export_dir_base: str,
    serving_input_receiver_fn: Callable,
    assets_extra: Any = None,
    as_text: bool = False,
    checkpoint_path: str | None = None,
    strip_default_attrs: bool = False,
  ) -> bytes:
    """The older name of export_saved_model."""
    del strip_default_attrs
    return self.export_saved_model(
      export_dir_base, serving_input_receiver_fn, assets_extra, as_text, checkpoint_path
    )

  def experimental_export_all_saved_models(
    self,
    export_dir_base: str,
    input_receiver_fn_map: dict[str, Callable],
    assets_extra: Any = None,
    as_text: bool = False,
    checkpoint_path: str | None = None,
  ) -> bytes:
    """Exports mode PREDICT. Octet's SavedModels have no training graph."""
    receiver = input_receiver_fn_map.get(trainer.ModeKeys.PREDICT)
    if receiver is None:
      raise errors.SettingError(
        "Octet can export only mode PREDICT, and the map has no receiver for it."
      )
    return self.export_saved_model(
      export_dir_base, receiver, assets_extra, as_text, checkpoint_path
    )

  @staticmethod
  def _run(call: Callable[[], Any]) -> Any:
    """Runs a call of self.octet; again if the batches have another size than self._sizes."""
    for _ in range(2):  # the input_fn may change the size, and then the model_fn's predictions
      with contextlib.suppress(reading.OtherSizeError):
        return call()
    return call()

  def _take_predictions_whole(self) -> None:
    """Begins a prediction again if one core need not know which row belongs to which example.

    Raises:
      OtherSizeError: it begins again.
    """
    if self.octet.device.replicas == 1:
      self.take_whole("predict")
      self._runners.clear()  # this one has begun to trace the model_fn
      raise reading.OtherSizeError("The predictions have other first axes than the batch.")

  # ------------------------------------------------------------------ params and hooks

  @property
  def _steps_between_hooks(self) -> int | None:
    """Returns the number of steps between two calls of SessionRunHooks; None: after each loop."""
    return 1

  @property
  def _octet_params(self) -> dict[str, Any]:
    """Returns Octet's params for the model_fn, without the program's own "batch_size"."""
    return {}

  def _make_params(self, params: dict[str, Any], mode: str) -> Any:
    """Returns the params for a function of the program, from Octet's params of a mode."""
    del params, mode
    return self.params

  def _begin(self, mode: str) -> None:
    """Traces the model_fn again if the program has changed state that the model_fn keeps."""
    # An evaluation inside a training must keep the trainer.Estimator that trains.
    if self._state.begin(mode) and not self._is_training:
      self._runners.clear()

  def _adapted(self, mode: str, hooks: Any) -> list[Any]:
    """Makes hooks of Octet; drops the traced steps if a hook must see the trace of its step."""
    self._begin(mode)
    every = self._steps_between_hooks
    adapted = session_hooks.adapt(hooks, every)
    before = self._given_hooks.get(mode)
    if session_hooks.needs_trace(adapted) or (before and session_hooks.needs_trace(before.hooks)):
      self._runners.clear()
    self._given_hooks[mode] = fetches.GivenHooks(adapted, every)
    return adapted


def _rows_of(batches: Iterator[Any]) -> Iterator[Any]:
  """Yields the rows of each batch of predictions.

  Raises:
    ValueError: the predictions of a batch have unequal numbers of rows.
  """
  for batch in batches:
    shapes = {name: array.shape for name, array in batch.items()} if isinstance(batch, dict) else {}
    sizes = {array.shape[:1] for array in tf.nest.flatten(batch)}
    if len(sizes) != 1 or () in sizes:
      raise ValueError(
        f"Batch length of predictions should be same, given shapes {shapes}: call "
        "predict(yield_single_examples=False)."
      )
    for row in range(*sizes.pop()):
      yield tf.nest.map_structure(lambda array, row=row: array[row], batch)


def _load_global_step_from_checkpoint_dir(checkpoint_dir: str) -> int:
  """Returns the step of a folder's newest checkpoint, or 0. Programs import it from this module."""
  newest = tf.train.latest_checkpoint(checkpoint_dir)
  if newest is None:
    return 0
  return int(tf.train.load_checkpoint(newest).get_tensor(v1.GraphKeys.GLOBAL_STEP))


def _as_numpy(value: Any) -> Any:
  """Converts a number of an evaluation to a NumPy value: programs call value.item()."""
  if isinstance(value, float):
    # A session returned float32. But evaluations.json has the float64 value, and an exporter finds
    # an evaluation's record by that value.
    return np.float64(value)
  return np.int64(value) if isinstance(value, int) else value


def _check_arguments(model_fn: Callable, params: Any) -> None:
  if not callable(model_fn):
    return  # model_fns.adapt refuses it
  if not input_fns.takes(model_fn, "features"):
    raise ValueError(f"model_fn {spec.name_of(model_fn)} must name the argument features.")
  if params is not None and not input_fns.takes(model_fn, "params"):
    raise ValueError(
      f"model_fn {spec.name_of(model_fn)} does not take params, but the Estimator got params: "
      f"{params!r}."
    )


def _as_config(config: Any) -> run_config.RunConfig:
  if config is None:
    return run_config.RunConfig()
  if not isinstance(config, run_config.RunConfig):
    raise ValueError(f"config must be a RunConfig of tf.estimator; got {config!r}.")
  return config
