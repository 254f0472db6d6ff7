"""Estimator: train, evaluate, predict and export a model_fn, on whatever device there is.

Example:
    estimator = Estimator(model_fn, "out/digits", train_batch_size=32, eval_batch_size=100)
    estimator.train(train_input_fn, max_steps=2000)
    estimator.evaluate(eval_input_fn)  # {"loss": ..., "accuracy": ..., "global_step": 2000}
    for prediction in estimator.predict(eval_input_fn): ...
    estimator.export_saved_model("out/digits/export")

An Estimator only makes the parts and passes each call to one of them.

| call                       | part                                                          |
|----------------------------|---------------------------------------------------------------|
| train                      | loop.training, which runs loop.outer_loop                     |
| evaluate                   | evaluation.evaluator                                           |
| predict                    | outputs.prediction_stream                                     |
| export_saved_model         | outputs.saved_model                                           |
| all: values of variables   | checkpoints.model_values; a step: loop.step; input: inputs.feeder |
"""

import contextlib
import functools
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from absl import logging

from trainer import __version__, config, errors, run_config, spec
from trainer.checkpoints import file_names, leases, reader
from trainer.devices import device as device_lib
from trainer.devices import tensorflow_behavior, workers
from trainer.estimator import dry_run, parts
from trainer.evaluation import record
from trainer.inputs import benchmark, read_errors
from trainer.loop import boundaries, outer_loop, preemption, training, watchdog
from trainer.outputs import options as options_lib
from trainer.programs import loop_input
from trainer.reporting import console
from trainer.settings import batch_sizes as batch_sizes_lib
from trainer.settings import setting_types
from trainer.settings.kinds import Kind

# An input_fn, or the LoopInput that Estimator.trace returns for it.
InputFn = Callable | loop_input.LoopInput


def _in_turn(method):
  """Wraps a method: no other thread uses the Estimator meanwhile, see `trainer.loop.thread_lock`.

  The method's log lines also appear in a notebook or a terminal, see `trainer.reporting.console`.
  """

  @functools.wraps(method)
  def call_in_turn(estimator, *args, **kwargs):
    name = method.__name__.removeprefix("_")
    with (
      estimator._parts.thread_lock.hold(name),
      console.lines_shown(estimator.config.show_progress),
      estimator.workers.watch(),
    ):
      estimator.log_settings()
      return method(estimator, *args, **kwargs)

  return call_in_turn


def _check_keras(precision):
  """Raises SettingError for a precision that the program has set in Keras alone."""
  policy, floats = keras.config.dtype_policy().name, keras.config.floatx()
  if (policy, floats) not in {("float32", "float32"), (f"mixed_{precision}", "float32")}:
    raise errors.SettingError(
      f"Keras has the dtype policy {policy} (floats are {floats}), and Octet's layers follow "
      f"RunConfig(precision={precision!r}) (--precision): set it to 'float32' or 'bfloat16', and "
      "leave Keras's policy and floatx at float32."
    )


class Estimator:
  """Runs a model_fn.

  One thread at a time uses an Estimator. While one thread trains, another thread gets an error that
  asks for a separate Estimator; otherwise it waits.

  A run of a kind (train, eval, predict) needs its global or its per-core batch size. The other size
  follows from the number of replicas.

  Args:
    model_fn: `model_fn(features, labels, mode, params, config)`, see `trainer.spec`.
    model_dir: the folder for all files; default: config.model_dir, or a new temporary folder.
    config: a RunConfig.
    params: dict that model_fn and the input_fns get, each a deep copy, with "batch_size" added
      (their per-core batch). Keys "batch_size" and "context" are Octet's.
    train_batch_size, eval_batch_size, predict_batch_size: global sizes, of all replicas together.
    train_per_core_batch_size, eval_per_core_batch_size, predict_per_core_batch_size: per-core
      sizes, instead of the global sizes.
    warm_start_from: a path or WarmStartSettings, see `trainer.checkpoints.warm_start`. All methods
      start from it until model_dir has a checkpoint.
    export_options: the ExportOptions of exported SavedModels.

  Raises:
    SettingError: an argument cannot work, or the device is missing.
  """

  def __init__(
    self,
    model_fn: Callable,
    model_dir: str | os.PathLike | None = None,
    config: run_config.RunConfig | None = None,
    params: Mapping[str, Any] | None = None,
    *,
    train_batch_size: int | None = None,
    eval_batch_size: int | None = None,
    predict_batch_size: int | None = None,
    train_per_core_batch_size: int | None = None,
    eval_per_core_batch_size: int | None = None,
    predict_per_core_batch_size: int | None = None,
    warm_start_from: Any = None,
    export_options: options_lib.ExportOptions | None = None,
  ) -> None:
    tensorflow_behavior.check()
    self.config = config or run_config.RunConfig()
    if not isinstance(self.config, run_config.RunConfig):
      raise errors.SettingError(f"config must be a trainer.RunConfig; got {self.config!r}.")
    _check_keras(self.config.precision)
    options = options_lib.check(export_options)
    checked_model_fn = spec.ModelFn(model_fn)
    checked_model_fn.check_params(params)
    self.params = spec.copy_params(params)
    self.model_dir = run_config.choose_model_dir(model_dir, self.config)
    self._batch_sizes = batch_sizes_lib.BatchSizes(
      train_batch_size,
      eval_batch_size,
      predict_batch_size,
      train_per_core_batch_size,
      eval_per_core_batch_size,
      predict_per_core_batch_size,
    )
    self.watchdog = watchdog.Watchdog(self.config.stage_seconds)
    self._has_logged_settings = False
    self.device = self._connect()
    self.config.tpu_config.check_shards(self.device.replicas, str(self.device))
    self._batch_sizes.check(self.device.replicas)
    self.workers = workers.Workers(self.device, self.model_dir)
    with self.workers.watch():  # Before the first variables.
      self._parts = parts.Parts(
        model_fn=checked_model_fn,
        model_dir=self.model_dir,
        config=self.config,
        params=self.params,
        batch_sizes=self._batch_sizes,
        warm_start_from=warm_start_from,
        export_options=options,
        device=self.device,
        workers=self.workers,
        watchdog=self.watchdog,
      )

  def _connect(self):
    """Returns the Device that the config asks for."""
    config = self.config
    with self.watchdog.stage("connect to the device"), console.lines_shown(config.show_progress):
      return device_lib.connect(
        config.device,
        config.tpu,
        config.gpu_config,
        config.cluster,
        self._facts,
        config.cluster_seconds,
      )

  def _facts(self):
    """What must be the same on all workers of a cluster: else they would train different models."""
    return {
      "gin": config.parsed_text(),
      "--precision": self.config.precision,
      "--seed": str(self.config.tf_random_seed),
      "the batch sizes": str(self._batch_sizes),
      "the version of Octet": __version__,
      "the version of TensorFlow": tf.__version__,
      "the version of Keras": keras.__version__,
      "the version of Python": f"{sys.version_info.major}.{sys.version_info.minor}",
    }

  def batch_sizes(self) -> dict[Kind, batch_sizes_lib.BatchSize]:
    """Returns the batch size of each kind with a size."""
    return self._batch_sizes.all_on(self.device.replicas)

  def log_settings(self, kinds: Collection[Kind] | None = None) -> None:
    """Logs the device, the seed and the batch sizes, once.

    Args:
      kinds: the kinds whose batch sizes to log; None for all.
    """
    if self._has_logged_settings:
      return
    self._has_logged_settings = True
    sizes: dict[str, batch_sizes_lib.BatchSize] = {
      kind: size for kind, size in self.batch_sizes().items() if kinds is None or kind in kinds
    }
    threads = self.device.threads
    logging.info(
      "Device: %s%s. Precision: %s. Seed: %d.\n%s",
      self.device,
      f", {threads} thread{'s' * (threads > 1)}" * (self.device.kind == "cpu"),
      self.config.precision,
      self.config.tf_random_seed,
      batch_sizes_lib.table(sizes, self.device.hosts),
    )

  @property
  def variables(self) -> dict[str, tf.Variable]:
    """The variables by name, as far as the traces have made them.

    On XLA devices, each read of this property copies the newest values to the variables. The next
    steps begin with the values that the program assigns to them then.
    """
    self._parts.program.store.bring_to_host()
    return dict(self._parts.program.store.variables)

  @property
  def traces(self) -> dict[Kind, int]:
    """How often Octet called model_fn, by kind."""
    return dict(self._parts.program.calls.traces)

  def get_variable_names(self) -> list[str]:
    """Returns the names of the variables in the newest checkpoint, sorted."""
    stored = leases.read(self._needed_checkpoint, reader.shapes)
    return sorted(set(stored) - reader.POSITION)

  def get_variable_value(self, name: str) -> np.ndarray:
    """Returns the value of a variable in the newest checkpoint."""
    return leases.read(self._needed_checkpoint, lambda path: reader.read(path, [name])[name])

  def latest_checkpoint(self) -> str | None:
    """Returns the path of the newest undamaged checkpoint in model_dir, or None."""
    return self._parts.values.latest()

  def checkpoint_steps(self) -> list[int]:
    """Returns the steps of the checkpoints in model_dir, oldest first.

    Waits until a running save has ended.
    """
    self._parts.checkpoints.wait()
    return self._parts.checkpoints.steps()

  def checkpoint_path(self, step: int) -> str:
    """Returns the path of the checkpoint of a step."""
    return self._parts.checkpoints.path(step)

  def latest_step(self) -> int | None:
    """Returns the step of the newest undamaged checkpoint in model_dir, or None.

    Waits until a running save has ended.
    """
    latest = self.latest_checkpoint()
    return file_names.step_of(latest) if latest else None

  @_in_turn
  def train(
    self,
    input_fn: InputFn,
    hooks: Sequence[Any] | None = None,
    steps: int | None = None,
    max_steps: int | None = None,
    saving_listeners: Sequence[Any] | None = None,
    evaluations: boundaries.Evaluations | None = None,
    ends_with_input: bool = False,
  ) -> "Estimator":
    """Trains.

    Args:
      input_fn: `input_fn(params)` → dataset of (features, labels), batches of params["batch_size"].
      hooks: list of hooks, see `trainer.hooks`.
      steps: int > 0, the number of further steps.
      max_steps: int > 0, the last global step. With neither, the training ends with the input.
      saving_listeners: list of tf.compat.v1.train.CheckpointSaverListener or similar objects,
        called without a session.
      evaluations: see boundaries.Evaluations; called at each scheduled checkpoint.
      ends_with_input: True for a run that a restart completes, such as a command: the last
        checkpoint records the end of the input, and a call that finds this record, with the same
        max_steps or none, does not train. False: each call reads the input from its beginning once
        the call before has ended.

    Returns:
      self.

    Raises:
      SettingError: the arguments cannot work.
      InputError: the input is empty or unusable.
      NonFiniteError: the loss or a variable became NaN or infinite.
      OutputError: Octet cannot write to model_dir.
      ModelDirBusyError: another training uses model_dir.
    """
    run_config.check_training_length(steps, max_steps)
    with self._parts.lock.hold():
      self._parts.training.train(
        training.Call(
          source=input_fn,
          estimator=self,
          hooks=hooks or (),
          batch_size=self._train_batch_size(),
          steps=steps,
          max_steps=max_steps,
          listeners=saving_listeners or (),
          evaluations=evaluations,
          ends_with_input=ends_with_input,
        )
      )
    return self

  def hold_model_dir(self) -> contextlib.AbstractContextManager[None]:
    """Returns a context without another training in model_dir.

    Use it for work that belongs to a training and runs outside `train`. If the folder does not
    exist yet, the context holds it as soon as `train` has made it.

    Raises:
      ModelDirBusyError: another training uses the folder.
    """
    return self._parts.lock.hold()

  def go_back(self) -> None:
    """Moves everything after the checkpoint aside that a person has named in `checkpoint`.

    `train` calls it first. Call it for work that belongs to a training and precedes `train`.

    Raises:
      ModelDirBusyError: another training uses model_dir.
      CheckpointNotFoundError: the named checkpoint is missing.
      OutputError: a move failed.
    """
    with self._parts.lock.hold():
      if self.device.is_chief:
        self._parts.checkpoints.go_back()

  @_in_turn
  def save_checkpoint(self) -> str:
    """Writes the current variables, for hooks in a training; returns the checkpoint's path."""
    return self._parts.saver.save()

  def wait_for_checkpoint(self) -> None:
    """Waits until no save is running.

    Raises:
      OutputError: a save failed.
    """
    self._parts.saver.wait()

  def evaluate(
    self,
    input_fn: InputFn,
    steps: int | None = None,
    hooks: Sequence[Any] | None = None,
    checkpoint_path: str | os.PathLike | None = None,
    name: str | None = None,
  ) -> dict[str, Any]:
    """Evaluates the whole set, or `steps` global batches of it. The last partial batch counts.

    Args:
      input_fn: `input_fn(params)` → dataset of (features, labels), with drop_remainder=False for
        all examples to count.
      steps: int > 0 or None.
      hooks: list of hooks, called once at the end.
      checkpoint_path: the checkpoint; default: the newest in model_dir.
      name: evaluations with different names keep their summaries apart, in `eval_<name>`.

    Returns:
      dict: "loss", the mean over all examples, "global_step", and the metrics.

    Raises:
      CheckpointNotFoundError: there is no checkpoint.
      InputError: there are no examples.
    """
    setting_types.check(steps, setting_types.Count | None, "evaluate: steps")
    values, all_hooks = self._evaluate(
      input_fn, self, hooks, steps=steps, checkpoint_path=checkpoint_path, name=name
    )
    # After the turn: a hook may take long, or ask another thread.
    all_hooks.call(values["global_step"], values)
    all_hooks.end(values["global_step"])
    return values

  @_in_turn
  def _evaluate(self, *args, **kwargs):
    return self._parts.evaluator.evaluate(*args, **kwargs)

  def evaluation_dir(self, name: str | None = None) -> str:
    """Returns the folder of the summaries of the evaluations of this name."""
    return record.folder(self.model_dir, name)

  @_in_turn
  def predict(
    self,
    input_fn: InputFn,
    predict_keys: Sequence[str] | None = None,
    hooks: Sequence[Any] | None = None,
    checkpoint_path: str | os.PathLike | None = None,
    yield_single_examples: bool = True,
    with_examples: bool = False,
  ) -> Iterator[Any]:
    """Predicts for every example, in order.

    Args:
      input_fn: `input_fn(params)` → dataset of features or of (features, labels); predict ignores
        the labels.
      predict_keys: list of keys of the predictions, or None for all.
      hooks: list of hooks, called once at the end.
      checkpoint_path: the checkpoint; default: the newest in model_dir.
      yield_single_examples: whether to yield single examples, or batches (up to a global batch).
      with_examples: whether to yield pairs of a prediction and its (features,) or (features,
        labels).

    Returns:
      A generator of predictions as numpy arrays, in the structure of model_fn's predictions.

    Raises:
      CheckpointNotFoundError: there is no checkpoint.
      SettingError: the predictions lack one of predict_keys.

    This call raises all errors, not the first `next()`.
    """
    return self._parts.predictor.stream(
      input_fn,
      self,
      hooks,
      keys=predict_keys,
      checkpoint_path=checkpoint_path,
      one_by_one=yield_single_examples,
      with_examples=with_examples,
    )

  def export_saved_model(
    self,
    export_dir_base: str | os.PathLike,
    serving_input_receiver_fn: Callable | None = None,
    assets_extra: setting_types.Assets | None = None,
    checkpoint_path: str | os.PathLike | None = None,
  ) -> str:
    """Writes a SavedModel for the CPU to `<export_dir_base>/<number>`, and returns its path.

    Another process first compares it with the model, see ExportOptions.

    Args:
      export_dir_base: a folder, made if needed.
      serving_input_receiver_fn: see `trainer.outputs.served_inputs`; default: the features of this
        Estimator's input_fns.
      assets_extra: dict of relative path → file to copy into the SavedModel.
      checkpoint_path: the checkpoint; default: the newest in model_dir.

    Raises:
      CheckpointNotFoundError: there is no checkpoint.
      SettingError: there is neither a traced input_fn nor a serving_input_receiver_fn.
      ExportError: the SavedModel and the model differ. Earlier exports stay.
      OutputError: it cannot write the SavedModel.
    """
    self._parts.thread_lock.check_process("export_saved_model")
    with preemption.leave_at_once():
      return self._parts.export.save(
        export_dir_base, serving_input_receiver_fn, assets_extra, checkpoint_path
      )

  def prepare_export(self, serving_input_receiver_fns: Iterable[Callable | None] = ()) -> None:
    """Traces exports before a training, and starts the process that checks them.

    The start takes seconds, and this call does not wait for it. An export within ten minutes uses
    the process, and the next export of a function its trace.

    Args:
      serving_input_receiver_fns: of the exports, see `export_saved_model`.

    Raises:
      OctetError: an export would refuse the model.
    """
    self._parts.export.prepare()
    for receiver_fn in dict.fromkeys(serving_input_receiver_fns):
      self._parts.export.try_trace(receiver_fn)

  @_in_turn
  def trace(self, kind: Kind, input_fn: InputFn) -> loop_input.LoopInput:
    """Makes the step of a kind and does not run it.

    Calls input_fn, checks the shapes of its batches and traces model_fn.

    Args:
      kind: "train", "eval" or "predict".
      input_fn: the input_fn of the kind.

    Returns:
      A LoopInput. Pass it to a call of that kind instead of the input_fn, to trace it only once.
    """
    return self._parts.inputs.call_and_trace(kind, input_fn, start=self._start(kind, input_fn))

  @_in_turn
  def try_step(self, kind: Kind, input_fn: InputFn) -> str:
    """Runs one step of a kind on its first batch, and writes nothing; returns a sentence on it.

    The variables have the values that they have at the time.
    """
    parts_, start = self._parts, self._start(kind, input_fn)
    return dry_run.try_step(
      kind, input_fn, parts_.inputs, parts_.values, parts_.program.calls.model_name, start
    )

  @_in_turn
  def try_training(
    self,
    input_fn: Callable,
    steps: int,
    loop_length: Callable[[int, int], int],
    after_loop: Callable[[outer_loop.LoopResult], bool],
  ) -> None:
    """Trains as a new training would begin, and writes nothing.

    Octet traces the model for this call alone. A later training begins as if there had been no
    trial.

    Args:
      input_fn: the train input_fn.
      steps: the most steps.
      loop_length: see `trainer.loop.outer_loop.train`.
      after_loop: the same.
    """
    dry_run.try_training(
      input_fn, steps, loop_length, after_loop, self._parts.inputs, self._parts.values
    )

  def time_input(self, kind: Kind, input_fn: Callable) -> benchmark.Report:
    """Times the input of a kind alone, without a step or a model.

    A batch is the batch of one core.

    Raises:
      InputError: the input is unusable or empty.
    """
    dataset, batch_size = self._parts.feeder.batches(kind, input_fn, self._start(kind, input_fn))
    with read_errors.translate(input_fn, kind):
      return benchmark.benchmark(dataset, batch_size)

  def _start(self, kind, input_fn):
    """Returns the first example of a run of a kind that begins now."""
    if kind != Kind.TRAIN:
      return 0
    input_fn, batch_size = loop_input.input_fn_of(input_fn), self._train_batch_size()
    return leases.read(
      self._parts.values.latest,
      lambda latest: self._parts.position.of(latest, input_fn, batch_size),
    )

  def _train_batch_size(self):
    return self._batch_sizes.resolve(Kind.TRAIN, self.device.replicas).global_size

  def check_values(self) -> None:
    """Checks that there is something to evaluate, predict with or export.

    Raises:
      CheckpointNotFoundError: there is neither a checkpoint in model_dir nor a warm start.
    """
    self._parts.values.source()

  def _needed_checkpoint(self):
    latest = self._parts.values.latest()
    if latest is None:
      raise errors.CheckpointNotFoundError(
        f"There is no checkpoint in {self.model_dir} (--model_dir): train first."
      )
    return latest


TPUEstimator = Estimator
