"""Estimator: train, evaluate, predict and export a model_fn, on whatever device there is.

Example:
    estimator = Estimator(model_fn, "out/digits", train_batch_size=32, eval_batch_size=100)
    estimator.train(train_input_fn, max_steps=2000)
    estimator.evaluate(eval_input_fn)               # {"loss": ..., "accuracy": ..., "global_step":
                                                    # 2000}
    for prediction in estimator.predict(eval_input_fn): ...
    estimator.export_saved_model("out/digits/export")
"""

import collections
import contextlib
import functools
import os
import tempfile
import time

import numpy as np
import tensorflow as tf
from absl import logging

from trainer import batch_sizes as batch_sizes_lib
from trainer import errors, run_config, spec
from trainer.checkpoints import (
  directory,
  model_values,
  reader,
  retention,
  variable_table,
  warm_start,
)
from trainer.devices import device as device_lib
from trainer.devices import tensorflow_behavior, workers
from trainer.hooks import session_run
from trainer.inputs import benchmark, decodable, elements, tpu_tiles
from trainer.inputs import call as inputs
from trainer.inputs import groups as groups_lib
from trainer.loop import boundaries as training
from trainer.loop import (
  device_loops,
  evaluation,
  non_finite,
  outer_loop,
  preemption,
  step,
  training_lock,
  turns,
  watchdog,
)
from trainer.outputs import completion, saved_model
from trainer.reporting import host_metrics as metrics
from trainer.reporting import metrics_file, summaries

ModeKeys = spec.ModeKeys

_MODE_OF = {"train": ModeKeys.TRAIN, "eval": ModeKeys.EVAL, "predict": ModeKeys.PREDICT}


def _in_turn(method):
  """A method during which no other thread uses the Estimator, see `trainer.loop.turns`."""

  @functools.wraps(method)
  def call(estimator, *args, **kwargs):
    with estimator._turns.take(method.__name__.removeprefix("_")):
      return method(estimator, *args, **kwargs)

  return call


class Estimator:
  """Runs a model_fn.

  One thread at a time uses it: another waits, or hears that it should have an Estimator of its own
  where the first one trains.

  A run of a kind (train, eval, predict) needs its batch size, global or per core; the other follows
  from the number of replicas.

  Args:
    model_fn: `model_fn(features, labels, mode, params, config)`, see `trainer.spec`.
    model_dir: where everything is written; default: config.model_dir, or a new temporary folder.
    config: a RunConfig.
    params: dict that model_fn and the input_fns get, with "batch_size" added (their per-core
      batch). Keys "batch_size" and "context" are reserved.
    train_batch_size, eval_batch_size, predict_batch_size: global sizes, of all replicas together.
    train_per_core_batch_size, eval_per_core_batch_size, predict_per_core_batch_size: per-core
      sizes, in place of the global ones.
    warm_start_from: a path or WarmStartSettings, see `trainer.checkpoints.warm_start`; for as long
      as model_dir has no checkpoint, all methods start from it.
    export_options: an ExportOptions, of the SavedModels that are exported.

  Raises:
    SettingError: an argument cannot work, or the device is not there.
  """

  def __init__(
    self,
    model_fn,
    model_dir=None,
    config=None,
    params=None,
    *,
    train_batch_size=None,
    eval_batch_size=None,
    predict_batch_size=None,
    train_per_core_batch_size=None,
    eval_per_core_batch_size=None,
    predict_per_core_batch_size=None,
    warm_start_from=None,
    export_options=None,
  ):
    tensorflow_behavior.check()
    self.config = config or run_config.RunConfig()
    if not isinstance(self.config, run_config.RunConfig):
      raise errors.SettingError(f"config must be a trainer.RunConfig; got {self.config!r}.")
    self._export_options = completion.check_options(export_options)
    self.params = dict(params or {})
    reserved = sorted({"batch_size", "context"} & set(self.params))
    if reserved:
      raise errors.SettingError(
        f"params has the reserved key {reserved[0]!r}: the framework sets it."
      )
    self._model_fn = spec.ModelFn(model_fn)
    self._model_fn.check_params(self.params)
    self.model_dir = _choose_model_dir(model_dir, self.config)
    self._batch_sizes = batch_sizes_lib.BatchSizes(
      train_batch_size,
      eval_batch_size,
      predict_batch_size,
      train_per_core_batch_size,
      eval_per_core_batch_size,
      predict_per_core_batch_size,
    )
    self._turns = turns.Turns(f"the Estimator of {self.model_dir}")
    self.watchdog = watchdog.Watchdog(self.config.stage_timeout_secs)
    with self.watchdog.stage("connect to the device"):
      self.device = device_lib.connect(self.config.device, self.config.tpu)
    shards = self.config.tpu_config.num_shards
    if shards is not None and shards != self.device.replicas:
      raise errors.SettingError(
        f"TPUConfig.num_shards is {shards}, and the device ({self.device}) "
        f"has {self.device.replicas} replicas."
      )
    self._batch_sizes.check(self.device.replicas)
    self.workers = workers.Workers(self.device)
    keep = self.config.retention or retention.Retention(newest=self.config.keep_checkpoint_max)
    self._checkpoints = directory.CheckpointDirectory(
      self.model_dir, keep, self.config.on_checkpoint_failure
    )
    self._lock = training_lock.TrainingLock(
      self.model_dir, self.config.force, is_needed=self.device.is_chief
    )
    sizes = {_MODE_OF[kind]: size.per_core for kind, size in self.batch_sizes().items()}
    self._program = step.Program(
      self._model_fn,
      strategy=self.device.strategy,
      params=self._all_params(),
      batch_sizes=sizes,
      config=self.config,
      uses_cpu_kernels=self.device.uses_cpu_kernels(self.config.cpu_kernels),
    )
    settings = None if warm_start_from is None else warm_start.as_settings(warm_start_from)
    self._values = model_values.ModelValues(
      self._program.store, self._checkpoints, settings, self.config.evaluate_ema
    )
    self._loops = device_loops.DeviceLoops(
      self._program,
      self.device.local_replicas,
      self.config.tpu_config.host_call_every_n_steps,
      on_one_cpu=self.device.kind == "cpu" and self.device.replicas == 1,
    )
    # By kind: (input_fn, dataset, iterator) that trace() has made, for the next call of the kind.
    self._prepared = {}
    # (kind, dataset): what gives an export its features, of evaluation or prediction if there was
    # one.
    self._feature_dataset = None, None
    self._training = False
    self._boundaries = None  # the training.Training of the newest training, from its first step on
    self._rollbacks = collections.Counter()  # by checkpoint
    self._train_input_fn = None  # that of the newest training
    self._examples_seen = 0  # of its data

  def batch_sizes(self):
    """dict of kind → BatchSize, of those kinds that have one."""
    kinds = [
      kind
      for kind in batch_sizes_lib.KINDS
      if self._batch_sizes.is_given(kind)
      or (kind == "predict" and self._batch_sizes.is_given("eval"))
    ]
    return {kind: self._batch_sizes.resolve(kind, self.device.replicas) for kind in kinds}

  @property
  def variables(self):
    """dict of name → tf.Variable, of what was made so far."""
    return dict(self._program.store.variables)

  @property
  def traces(self):
    """dict of mode → how often model_fn was called in it."""
    return dict(self._program.traces)

  def get_variable_names(self):
    """Names of the variables in the latest checkpoint, sorted."""
    return sorted(set(reader.shapes(self._needed_checkpoint())) - {reader.EXAMPLES_SEEN})

  def get_variable_value(self, name):
    """The value (numpy array) of a variable in the latest checkpoint."""
    return reader.read(self._needed_checkpoint(), [name])[name]

  def latest_checkpoint(self):
    """The path of the newest checkpoint in model_dir that is not damaged, or None."""
    return self._values.latest()

  def checkpoint_steps(self):
    """Steps of the checkpoints in model_dir, oldest first; waits for one that is being written."""
    self._checkpoints.wait()
    return self._checkpoints.steps()

  def checkpoint_path(self, step):
    """The path of the checkpoint of a step."""
    return self._checkpoints.path(step)

  def latest_step(self):
    """The step of the newest checkpoint in model_dir that is not damaged, or None; waits for
    one that is being written.
    """
    latest = self.latest_checkpoint()
    return directory.step_of(latest) if latest else None

  # ------------------------------------------------------------------ train

  @_in_turn
  def train(self, input_fn, hooks=None, steps=None, max_steps=None, saving_listeners=None):
    """Trains.

    Args:
      input_fn: `input_fn(params)` → dataset of (features, labels), batches of params["batch_size"].
      hooks: list of hooks, see `trainer.hooks`.
      steps: int > 0, how many more steps.
      max_steps: int > 0, the global step to end at. Neither: until the input ends.
      saving_listeners: list of tf.compat.v1.train.CheckpointSaverListener or their like; they are
        called without a session.

    Returns:
      self.

    Raises:
      SettingError: arguments that cannot work.
      InputError: there is no input, or it cannot be used.
      NonFiniteError: the loss became NaN or infinite.
      OutputError: model_dir cannot be written.
      ModelDirBusyError: another training goes on there.
    """
    if steps is not None and max_steps is not None:
      raise errors.SettingError(f"train: set steps ({steps}) or max_steps ({max_steps}), not both.")
    for name, value in (("steps", steps), ("max_steps", max_steps)):
      if value is not None:
        run_config.require_positive_int(value, f"train: {name}")
    self._boundaries = None
    with self._lock.hold():
      try:
        self._train(
          input_fn, session_run.adapt(hooks, "train"), steps, max_steps, saving_listeners or []
        )
      except KeyboardInterrupt as error:  # who wants to go does not wait
        if error.args or self._boundaries is not None:
          raise
        raise preemption.Interrupted(preemption.NOTHING_TO_SAVE) from None
      except BaseException:
        # Else what is being written would come into the next training.
        self._checkpoints.wait_and_warn()
        raise
    return self

  def _train(self, input_fn, hooks, steps, max_steps, saving_listeners):
    """What `train` does once no other training can be at work in model_dir, if that is there."""
    if self.device.is_chief:
      self._checkpoints.clean()
    # The newest checkpoint is looked up once: another may appear at any moment, and the weights,
    # the step and the place in the data must be those of one.
    latest = self._values.latest()
    if max_steps is not None and latest and reader.read_step(latest) >= max_steps:
      logging.info(
        "Training is complete: %s is at step %d, max_steps is %d.",
        latest,
        reader.read_step(latest),
        max_steps,
      )
      return
    position = self._position(input_fn, latest)
    dataset, iterator = self._traced("train", input_fn, start=position)
    if latest is None:
      # Which may ask for initial values from a checkpoint.
      self._program.restored_names(ModeKeys.TRAIN)
    self._values.load(latest or model_values.WARM_START)
    start = int(self._program.global_step.numpy())
    final_step = start + steps if steps is not None else max_steps
    self._make_model_dir()
    if self._lock.take() and self._checkpoints.steps():
      raise errors.ModelDirBusyError(
        f"Another training has been in {self.model_dir} (--model_dir) since this one began: start "
        "again, to go on from it."
      )
    all_hooks = [
      *hooks,
      *session_run.adapt(self._program.specs[ModeKeys.TRAIN].training_hooks, "training_hooks"),
    ]
    if self.device.is_chief:
      logging.info("%s", variable_table.table(self._program.store.variables))
    size = self._batch_sizes.resolve("train", self.device.replicas).global_size
    self._examples_seen = position
    self._train_input_fn = input_fn
    endless = _is_endless(dataset)

    def run_loop(count):
      self._values.invalidate()
      is_first = self._examples_seen == position
      stage = (
        "first training steps: first batch, compilation"
        if is_first
        else "training steps, or the input that they wait for"
      )
      with (
        step.translate_step_errors(self._model_fn.name, "train"),
        inputs.translate_read_errors(input_fn, "train", self._loops.failed_in_input),
        self.watchdog.stage(stage),
      ):
        result = self._loops.train(iterator, tf.constant(count, tf.int64), endless)
        done = int(result["steps"])  # which waits for them
      self._examples_seen += done * size
      return result

    if self.workers.broadcast_from_chief(start) != start:
      raise errors.SettingError(
        f"Worker {self.device.host} starts at step {start}, the chief at "
        f"another: all must have the same {self.model_dir}."
      )
    watch = preemption.Watch()
    with (
      watch.handle_signals(),
      self.workers.watch(self.model_dir),
      training.Training(
        self,
        all_hooks,
        saving_listeners,
        start,
        final_step,
        size,
        watch,
        is_saved=latest is not None,
      ) as boundaries,
    ):
      self._training, self._boundaries = True, boundaries
      try:
        reached, exhausted = start, False
        while not boundaries.stopped:
          try:
            reached, exhausted = outer_loop.train(
              run_loop,
              reached,
              final_step or _NO_END,
              boundaries.loop_length,
              boundaries.after_loop,
            )
            break
          except non_finite.NonFiniteLoss as found:
            reached = self._roll_back(found, input_fn)
        if exhausted and reached == start:
          raise errors.InputError(
            f"The train input_fn {spec.name_of(input_fn)} gave no batch for "
            "a step: its dataset is empty or too small."
          )
        if exhausted:
          # The next training reads it from its beginning, as one epoch a call.
          self._examples_seen = 0
          boundaries.position_changed()
        if exhausted and final_step is not None:
          logging.warning("Training ended: input exhausted at step %d of %d", reached, final_step)
        boundaries.finish(reached)
      finally:
        self._training = False

  @contextlib.contextmanager
  def alone_in_model_dir(self):
    """Inside, no other training has model_dir: for what belongs to one beside `train`. Where the
    folder is not there yet, this holds from when `train` has made it.

    Raises:
      ModelDirBusyError: another training goes on there.
    """
    with self._lock.hold():
      yield

  def _roll_back(self, found, input_fn):
    """What is done about a loss that is no number: goes back to the last good checkpoint, whose
    step it returns, where the policy is that.

    Raises:
      NonFiniteError: it is not, or it did not help.
    """
    latest = self.latest_checkpoint()
    with self.watchdog.stage("look for the tensor that is not finite"):
      text = non_finite.message(found, latest, self._explain(found, latest, input_fn))
    self._rollbacks[latest] += 1
    if self.config.on_non_finite == "stop" or latest is None:
      raise errors.NonFiniteError(text)
    if self._rollbacks[latest] > non_finite.ROLLBACKS:
      raise errors.NonFiniteError(
        f"{text} The training went back to that checkpoint "
        f"{non_finite.ROLLBACKS} times; it does not help."
      )
    self._values.load(latest)
    step_ = int(self._program.global_step.numpy())
    logging.warning(
      "%s Going back to step %d, and on with the examples that follow "
      "(RunConfig.on_non_finite = 'rollback').",
      text,
      step_,
    )
    if self.device.is_chief:
      metrics_file.begin(self.model_dir, step_)
    return step_

  def _explain(self, found, latest, input_fn):
    """Sentences on where a loss that is not finite comes from, found by training again from a
    checkpoint; "" where that cannot be.
    """
    # Whose compiler has no checks of tensors.
    if latest is None or self.device.is_multi_worker or self.device.kind == "tpu":
      return ""
    self._values.load(latest)
    before = found.step - 1 - int(self._program.global_step.numpy())
    logging.info(
      "Doing %d steps again from %s, to find what was not finite at step %d.",
      before,
      latest,
      found.step,
    )
    dataset = self._dataset("train", input_fn, self._position(input_fn, latest))
    iterator = iter(dataset)
    self._values.invalidate()
    if before:
      self._loops.train(iterator, tf.constant(before, tf.int64), _is_endless(dataset))
    batches = [next(iterator) for _ in range(self.device.local_replicas)]
    return non_finite.explain(
      self._program, batches, found.step, os.path.join(self.model_dir, "non_finite")
    )

  @_in_turn
  def save_checkpoint(self):
    """Writes the variables as they are; returns the checkpoint's path.

    For hooks, during training.
    """
    values = self._program.store.snapshot()
    current = int(values["global_step"])
    path = self._checkpoints.path(current)
    self._values.mark_saved(path, values)
    if self.device.is_chief:
      self._lock.check()
      with self.watchdog.stage("save a checkpoint"):  # which waits for the one before
        self._checkpoints.save(
          current,
          dict(values, **{reader.EXAMPLES_SEEN: tf.constant(self._examples_seen, tf.int64)}),
        )
    if self.device.is_multi_worker:  # nobody goes on before it is there
      self.wait_for_checkpoint()
      self.workers.broadcast_from_chief(current)
      self._checkpoints.mark_whole(path)
    return path

  def wait_for_checkpoint(self):
    """Returns when no checkpoint is being written any more; OutputError if one could not be."""
    with self.watchdog.stage("save a checkpoint"):
      self._checkpoints.wait()

  def _position(self, input_fn, latest):
    """How many examples of a train input_fn were seen before a checkpoint (None: none): by the run
    that is continued, or by an earlier call with the same function. Another function in the same
    process starts at its beginning.
    """
    if latest is None or self._train_input_fn not in (None, input_fn):
      return 0
    if reader.EXAMPLES_SEEN in reader.shapes(latest):
      return int(reader.read(latest, [reader.EXAMPLES_SEEN])[reader.EXAMPLES_SEEN])
    return (
      reader.read_step(latest)
      * self._batch_sizes.resolve("train", self.device.replicas).global_size
    )

  def _next_position(self, kind, input_fn):
    """Where a run of a kind would begin in its data if it were started now, in examples."""
    return self._position(input_fn, self._values.latest()) if kind == "train" else 0

  # --------------------------------------------------------------- evaluate

  def evaluate(self, input_fn, steps=None, hooks=None, checkpoint_path=None, name=None):
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
    if steps is not None:
      run_config.require_positive_int(steps, "evaluate: steps")
    values, hooks = self._evaluate(input_fn, steps, hooks, checkpoint_path, name)
    _call_and_end(hooks, values["global_step"], values, self)
    return values

  @_in_turn
  def _evaluate(self, input_fn, steps, hooks, checkpoint_path, name):
    """(what `evaluate` returns, all hooks, which have begun)."""
    source = self._values.source(checkpoint_path)
    _, iterator = self._traced("eval", input_fn, name or "")
    names = self._program.restored_names(ModeKeys.EVAL)
    hooks = session_run.adapt(
      [*(hooks or []), *(self._program.specs[ModeKeys.EVAL].evaluation_hooks or [])], "evaluate"
    )
    _begin(hooks, self)
    own = self._values.is_own(source)
    with (
      self.watchdog.stage("evaluation"),
      inputs.translate_read_errors(input_fn, "eval"),
      retention.lease(source) if own else contextlib.nullcontext(),
      self._values.use(source, self._training, names),
    ):
      result = evaluation.run(self._loops, iterator, name or "", steps, self._beat)
    if not result.examples:
      raise errors.InputError(
        f"The eval input_fn {spec.name_of(input_fn)} gave no example: there is nothing to evaluate."
      )
    values = dict(result.values, global_step=int(self._program.global_step.numpy()))
    if self.device.is_chief:
      writer = summaries.Writer(self.evaluation_dir(name))
      scalars = metrics.scalars(result.values)
      writer.scalars(values["global_step"], scalars)
      writer.close()
      if own:
        retention.note_evaluation(self.model_dir, name or "", values["global_step"], scalars)
        metrics_file.append(
          self.model_dir, metrics_file.eval_kind(name), values["global_step"], scalars
        )
    shown = ", ".join(
      f"{key} = {value:.5g}" if isinstance(value, float) else f"{key} = {value}"
      for key, value in values.items()
    )
    logging.info(
      "Evaluated %d examples%s: %s", result.examples, f" ({name})" if name else "", shown
    )
    return values, hooks

  def _beat(self):
    """What is done between the batches of an evaluation."""
    self.watchdog.beat()
    if self._training:
      self._boundaries.leave_if_saved()

  def evaluation_dir(self, name=None):
    """Where the summaries of the evaluations of this name go."""
    return os.path.join(self.model_dir, f"eval_{name}" if name else "eval")

  # ---------------------------------------------------------------- predict

  @_in_turn
  def predict(
    self,
    input_fn,
    predict_keys=None,
    hooks=None,
    checkpoint_path=None,
    yield_single_examples=True,
    with_examples=False,
  ):
    """Predicts for every example, in order.

    Args:
      input_fn: `input_fn(params)` → dataset of features or of (features, labels), whose labels are
        not looked at.
      predict_keys: list of keys of the predictions, or None for all.
      hooks: list of hooks, called once at the end.
      checkpoint_path: the checkpoint; default: the newest in model_dir.
      yield_single_examples: whether to yield example by example, or batch by batch (of a global
        batch at most).
      with_examples: whether to yield pairs of a prediction and the (features,) or (features,
        labels) that it is for.

    Returns:
      A generator of predictions as numpy arrays, in the structure that model_fn gives them.

    Raises:
      CheckpointNotFoundError: there is no checkpoint.
      SettingError: predict_keys are none of the predictions'.
      All of them at the call, not at the first `next()`.
    """
    source = self._values.source(checkpoint_path)
    dataset, iterator = self._traced("predict", input_fn)
    self._check_predict_keys(predict_keys)
    with self._values_to_predict(source):  # which finds what does not fit
      pass
    all_hooks = session_run.adapt(
      [*(hooks or []), *(self._program.specs[ModeKeys.PREDICT].prediction_hooks or [])], "predict"
    )
    groups = self._loops.predict(
      self._loops.trace_predict(iterator), iterator, _cardinality(dataset), with_examples
    )
    return self._predictions(
      input_fn, groups, source, predict_keys, yield_single_examples, with_examples, all_hooks
    )

  def _values_to_predict(self, source):
    return self._values.use(source, self._training, self._program.restored_names(ModeKeys.PREDICT))

  def _check_predict_keys(self, predict_keys):
    predictions = self._program.specs[ModeKeys.PREDICT].predictions
    if predict_keys is None:
      return
    if not isinstance(predictions, dict):
      raise errors.SettingError(
        f"predict: predict_keys={predict_keys!r} need predictions that are "
        "a dict; model_fn gives one tensor."
      )
    unknown = [key for key in predict_keys if key not in predictions]
    if unknown:
      raise errors.SettingError(
        f"predict: predict_keys has {unknown[0]!r}; the predictions are "
        f"{', '.join(sorted(predictions))}."
      )

  def _predictions(self, input_fn, groups, source, keys, single, with_examples, hooks):
    _begin(hooks, self)
    while True:
      with (
        self._turns.take("predict"),
        # Others may have used the variables since the last `next()`.
        self._values_to_predict(source),
        step.translate_step_errors(self._model_fn.name, "predict"),
        inputs.translate_read_errors(input_fn, "predict"),
        self.watchdog.stage("a batch to predict"),
      ):
        result = next(groups, None)
        step_ = int(self._program.global_step.numpy())
      if result is None:
        break
      predictions, element = result
      if keys is not None:
        predictions = {key: predictions[key] for key in keys}
      batch = (predictions, element) if with_examples else predictions
      if single:
        yield from _single_examples(batch)
      else:
        yield batch
    _call_and_end(hooks, step_, {}, self)

  # ----------------------------------------------------------------- export

  def export_saved_model(
    self, export_dir_base, serving_input_receiver_fn=None, assets_extra=None, checkpoint_path=None
  ):
    """Writes a SavedModel for the CPU to `<export_dir_base>/<timestamp>`, once it was seen to give
    what the model gives (see ExportOptions).

    Args:
      export_dir_base: a folder, made if needed.
      serving_input_receiver_fn: see `trainer.outputs.saved_model`; default: the features as the
        input_fns
        of this Estimator give them.
      assets_extra: dict of relative path → file to copy into the SavedModel.
      checkpoint_path: the checkpoint; default: the newest in model_dir.

    Returns:
      The SavedModel's path.

    Raises:
      CheckpointNotFoundError: there is no checkpoint.
      SettingError: no input_fn has been seen and no serving_input_receiver_fn is given.
      ExportError: the SavedModel does not give what the model gives. What was exported before stays
        as it is.
      OutputError: it cannot be written.
    """
    source = self._values.source(checkpoint_path)
    kind, dataset = self._feature_dataset

    def give_values(program):
      self._values.assign_to(source, program.store, program.restored_names(ModeKeys.PREDICT))

    exported = saved_model.save(
      self._model_fn,
      params=self._all_params(),
      config=self.config,
      feature_spec=None if dataset is None else saved_model.free_batch(dataset.element_spec[0]),
      give_values=give_values,
      export_dir_base=export_dir_base,
      serving_input_receiver_fn=serving_input_receiver_fn,
      assets_extra=assets_extra,
      completion=completion.Completion(
        self._export_options,
        self._about(source),
        {} if dataset is None else decodable.decoders_of(dataset),
        None if dataset is None else lambda count: saved_model.sample(dataset, kind, count),
      ),
    )
    logging.info("Exported %s to %s", source, exported)
    return exported

  def _about(self, source):
    """What an export says of where it comes from."""
    own = self._values.is_own(source)
    step_ = reader.read_step(source) if source != model_values.WARM_START else 0
    return {
      "model": self._model_fn.full_name,
      "checkpoint": source,
      "global_step": step_,
      "metrics": retention.read_evaluations(self.model_dir, "").get(step_, {}) if own else {},
    }

  # ----------------------------------------------------------------- shared

  @_in_turn
  def trace(self, kind, input_fn):
    """Makes the step of a kind without running it: calls input_fn, checks its shapes, traces
    model_fn. The next call of that kind goes on from there.

    Args:
      kind: "train", "eval" or "predict".
      input_fn: the input_fn of that call.
    """
    start = self._next_position(kind, input_fn)
    self._prepared[kind] = input_fn, start, *self._traced(kind, input_fn, start=start)

  @_in_turn
  def try_step(self, kind, input_fn):
    """Runs one step of a kind on its first batch, with the variables as they are, and writes
    nothing; returns a sentence on it.
    """
    dataset, iterator = self._traced(kind, input_fn, start=self._next_position(kind, input_fn))
    start = time.monotonic()
    if kind == "train":
      self._values.invalidate()
      result = self._loops.train(iterator, tf.constant(1, tf.int64), _is_endless(dataset))
      done, what = int(result["steps"]), f"loss {float(result['loss']):.5g}"
    elif kind == "eval":
      result = evaluation.run(self._loops, iterator, "", steps=1)
      done, what = (
        result.examples,
        ", ".join(
          f"{name} {value:.5g}" for name, value in result.values.items() if isinstance(value, float)
        ),
      )
    else:
      result = next(self._loops.predict(self._loops.trace_predict(iterator), iterator), None)
      done = result is not None
      what = (
        ""
        if result is None
        else ", ".join(
          f"{path} {leaf.dtype.name}{list(leaf.shape)}"
          for path, leaf in elements.named_leaves(result[:1], ["predictions"])
        )
      )
    if not done:
      raise errors.InputError(
        f"The {kind} input_fn {spec.name_of(input_fn)} gave no batch: its "
        "dataset is empty or too small."
      )
    return f"one {kind} step in {time.monotonic() - start:.2f} s: {what}"

  def time_input(self, kind, input_fn):
    """Runs the input of a kind by itself, with no step and no model; returns a
    benchmark_input.Report. A batch is that of one core.

    Raises:
      InputError: the input cannot be used, or there is none.
    """
    dataset, batch_size = self._input(kind, input_fn, self._next_position(kind, input_fn))
    with inputs.translate_read_errors(input_fn, kind):
      return benchmark.benchmark(dataset, batch_size)

  def _traced(self, kind, input_fn, name="", start=0):
    """(dataset, iterator) of a run of a kind, whose device loop has been traced: of per-core
    batches to train, of groups to evaluate and predict. `start` is the place in the training data,
    in examples.
    """
    prepared = self._prepared.pop(kind, None)
    if prepared and prepared[0] is input_fn and prepared[1] == start:
      return prepared[2:]
    dataset = self._dataset(kind, input_fn, start)
    iterator = iter(dataset)
    count = tf.TensorSpec([], tf.int64)
    if kind == "train":
      self._loops.trace_train(iterator, _is_endless(dataset))
    elif kind == "eval":
      self._loops.evaluate.get_concrete_function(iterator, dataset.element_spec, count, name)
    else:
      self._loops.trace_predict(iterator)
    return dataset, iterator

  def _input(self, kind, input_fn, start=0):
    """(dataset, batch size) that an input_fn gives, its shapes checked; from the example
    `start` on, in training.
    """
    per_core = self._batch_sizes.resolve(kind, self.device.replicas).per_core
    by_host = kind == "train" and self.config.tpu_config.gives_host_batches
    batch_size = per_core * self.device.local_replicas if by_host else per_core
    # Every worker evaluates the whole set, and so needs no other; in training, each reads a share
    # of its own.
    hosts = self.device.hosts if kind == "train" and self.device.is_multi_worker else 1
    context = tf.distribute.InputContext(
      hosts, self.device.host if hosts > 1 else 0, self.device.replicas
    )
    with self.watchdog.stage(f"{kind} input_fn {spec.name_of(input_fn)}"):
      dataset = inputs.call(
        input_fn, self._all_params(), batch_size, self.config.tf_random_seed, kind, context, start
      )
    static = self.config.static_shapes or self.device.replicas > 1 or self.device.kind == "tpu"
    elements.check_shapes(dataset, batch_size, kind, static)
    return dataset, batch_size

  def _dataset(self, kind, input_fn, start=0):
    """What the device loop of a kind takes: per-core batches to train, groups to evaluate and
    predict.
    """
    dataset, batch_size = self._input(kind, input_fn, start)
    per_core = self._batch_sizes.resolve(kind, self.device.replicas).per_core
    config, cores = self.config.tpu_config, self.device.local_replicas
    if kind != "train" or self._feature_dataset[0] in (None, "train"):
      self._feature_dataset = kind, dataset
    if kind == "train":
      dataset = groups_lib.cut(dataset, cores) if batch_size != per_core else dataset
      for sentence in (
        tpu_tiles.warnings(dataset.element_spec, per_core) if self.device.resembles_tpu else []
      ):
        logging.warning("%s", sentence)
      return groups_lib.read_ahead(dataset)
    return groups_lib.group(dataset, per_core, cores, config.broadcasts)

  def _all_params(self):
    return dict(self.params, use_tpu=self.device.kind == "tpu")

  def check_values(self):
    """Raises CheckpointNotFoundError if there is nothing to evaluate, predict with or export:
    no checkpoint in model_dir, no warm start.
    """
    self._values.source()

  def _needed_checkpoint(self):
    latest = self._values.latest()
    if latest is None:
      raise errors.CheckpointNotFoundError(
        f"There is no checkpoint in {self.model_dir} (--model_dir): train first."
      )
    return latest

  def _make_model_dir(self):
    try:
      tf.io.gfile.makedirs(self.model_dir)
    except (tf.errors.OpError, OSError) as error:
      raise errors.OutputError(
        f"The folder {self.model_dir} (--model_dir) cannot be made: {error}"
      ) from error


def _single_examples(batch):
  """The examples of a nest of arrays, each in the same structure."""
  # As usual; tf.nest takes ten times as long.
  if type(batch) is dict and all(isinstance(value, np.ndarray) for value in batch.values()):
    for values in zip(*batch.values(), strict=True):
      yield dict(zip(batch, values, strict=True))
    return
  for i in range(len(tf.nest.flatten(batch)[0])):
    yield tf.nest.map_structure(lambda array, i=i: array[i], batch)


def _begin(hooks, estimator):
  for hook in hooks:
    if hasattr(hook, "begin"):
      hook.begin(estimator)


def _call_and_end(hooks, step_, metrics, estimator):
  for hook in hooks:
    hook(step_, metrics, estimator)
    if hasattr(hook, "end"):
      hook.end(step_, estimator)


_NO_END = 2**62


def _is_endless(dataset):
  # A Python value: the loop is traced for it.
  return bool(dataset.cardinality().numpy() == tf.data.INFINITE_CARDINALITY)


def _cardinality(dataset):
  """Number of elements, or None if it is not known or there is no end."""
  count = int(dataset.cardinality().numpy())
  return count if count >= 0 else None


def _choose_model_dir(model_dir, config):
  if (
    model_dir
    and config.model_dir
    and os.path.normpath(model_dir) != os.path.normpath(config.model_dir)
  ):
    raise errors.SettingError(
      f"model_dir is {model_dir!r}, and config.model_dir is {config.model_dir!r}: set one of them."
    )
  chosen = model_dir or config.model_dir
  if not chosen:
    chosen = tempfile.mkdtemp()
    logging.warning("No model_dir was given; using the temporary folder %s", chosen)
  return os.fspath(chosen)


TPUEstimator = Estimator
