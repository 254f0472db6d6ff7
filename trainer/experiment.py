"""The story of a run: device → inputs → estimator → loop, by mode.

`Experiment` holds gin's bindings of `run`; `Flags` holds the command line.

    run.model_fn = @digits_mlp.model_fn
    run.train_input_fn = @train/digits.input_fn
    run.train_batch_size = 32

Files that this module writes; `trainer.checkpoints.directory` writes the others:

    <model_dir>/config.gin               the bindings as parsed, when a training begins
    <model_dir>/operative_config.gin     the bindings that took effect, after the first loop
    <model_dir>/environment.json         hardware and versions of the training
    <model_dir>/eval/                    TensorBoard files of evaluations
    <model_dir>/evaluation_reports/      see `trainer.reporting.evaluation_reports`
    <model_dir>/export/                  SavedModels, see `trainer.outputs.exporters`
    <model_dir>/predictions-<step>.*     see `trainer.outputs.predictions`
"""

import collections
import dataclasses
import os
import shlex
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import gin
from absl import logging

from trainer import config, errors, run_config
from trainer.cli import formatting
from trainer.config import gin_names

# Gin files name these without an import: model_fn_from_keras, the hooks.
from trainer.estimator import (
  estimator,
  keras_model,  # noqa: F401
)
from trainer.evaluation import continuous, eval_spec, train_evaluate
from trainer.hooks import (
  early_stopping,  # noqa: F401
  histograms,  # noqa: F401
  hook_list,
  periodic,  # noqa: F401
  profiler,
  saving_listeners,
  session_run,
)
from trainer.io import files, storage
from trainer.judgement import evaluation_report as report_lib
from trainer.loop import preemption
from trainer.outputs import exporters as exporters_lib
from trainer.outputs import options, predictions
from trainer.programs import loop_input
from trainer.reporting import environment, evaluations_file, metric_values, summaries
from trainer.settings import batch_sizes, durations, setting_types
from trainer.settings.kinds import Kind
from trainer.tracking import mlflow_hook, wandb_hook  # noqa: F401

# What a mode does, by the kinds of step that it runs.
_KINDS = {
  "train": (Kind.TRAIN,),
  "evaluate": (Kind.EVAL,),
  "train_and_evaluate": (Kind.TRAIN, Kind.EVAL),
  "continuous_eval": (Kind.EVAL,),
  "predict": (Kind.PREDICT,),
  "export": (Kind.PREDICT,),
}

MODES = tuple(_KINDS)


@gin_names.configurable("run", module="trainer")
@dataclasses.dataclass(frozen=True, kw_only=True)
class Experiment:
  """The arguments that a gin file binds to `run`.

  Attributes:
    model_fn: see `trainer.spec`.
    train_input_fn: the input_fn of the training, see `trainer.inputs`.
    train_input_service: "grpc://host:port" of a tf.data service that runs the train_input_fn, see
      `trainer.inputs.data_service`.
    eval_input_fn: the input_fn of the evaluations.
    predict_input_fn: the input_fn of predictions; default: eval_input_fn.
    params: dict for the model_fn and the input_fns.
    train_steps: the global step to end at, or a duration such as "50 epochs", see
      `trainer.settings.durations`; None for the end of the input.
    eval_steps: global batches to evaluate; None for the whole set.
    eval_throttle_secs: the shortest time between two evaluations of a training.
    eval_timeout_secs: --mode=continuous_eval ends after this time without a new checkpoint.
    eval_specs: list of EvalSpecs of further evaluation sets; each needs a name.
    evaluation_report: an EvaluationReport, for more details than the metrics, see
      `trainer.judgement`; None for no report.
    exporters: list of exporters, see `trainer.outputs.exporters`; None for one SavedModel at the
      end, in <model_dir>/export/<number>.
    train_batch_size: the global batch of a training step.
    eval_batch_size: the global batch of an evaluation step.
    predict_batch_size: the global batch of a prediction step; default: eval_batch_size.
    train_per_core_batch_size: the batch of one core, instead of train_batch_size.
    eval_per_core_batch_size: the batch of one core, instead of eval_batch_size.
    predict_per_core_batch_size: the batch of one core, instead of predict_batch_size.
    train_hooks: list of hooks, see `trainer.hooks`.
    saving_listeners: list of objects that the training calls at each checkpoint, see
      `trainer.hooks`.
    class_names: list of str, the classes' names in the order of their numbers, for predictions;
      None to show numbers.
    contact_sheet_images: the number of images on the contact sheet of predictions; 0 for no contact
      sheet.
    contact_sheet: the examples on the sheet and in the table of predictions. "spread": a sample of
      the whole set, the same for the same seed. "worst": wrong examples, lowest probability of the
      label first.
    warm_start_from: a path or WarmStartSettings, see `trainer.checkpoints.warm_start`.
    export_options: an ExportOptions; by default it has the class_names above.

  Raises:
    SettingError: a value is of the wrong type or out of range.
  """

  model_fn: Callable
  train_input_fn: Callable | None = None
  train_input_service: str = ""
  eval_input_fn: Callable | None = None
  predict_input_fn: Callable | None = None
  params: Mapping[str, Any] | None = None
  train_steps: int | str | None = None
  eval_steps: setting_types.Count | None = None
  eval_throttle_secs: setting_types.NotNegative = 0
  eval_timeout_secs: setting_types.NotNegative = 3600.0
  eval_specs: Annotated[Sequence[eval_spec.EvalSpec], "such as [@test/EvalSpec()]"] = ()
  evaluation_report: Annotated[
    report_lib.EvaluationReport | None, "such as @EvaluationReport()"
  ] = None
  exporters: Annotated[Sequence[Any], "of exporters, such as [@BestExporter()]"] | None = None
  train_batch_size: setting_types.Count | None = None
  eval_batch_size: setting_types.Count | None = None
  predict_batch_size: setting_types.Count | None = None
  train_per_core_batch_size: setting_types.Count | None = None
  eval_per_core_batch_size: setting_types.Count | None = None
  predict_per_core_batch_size: setting_types.Count | None = None
  train_hooks: Annotated[Sequence[Any], "of hooks, such as [@EarlyStopping()]"] = ()
  saving_listeners: Annotated[Sequence[Any], "of listeners, such as [@my_listeners.Copy()]"] = ()
  class_names: options.ClassNames | None = None
  contact_sheet_images: setting_types.Natural = 24
  contact_sheet: Annotated[str, setting_types.one_of(*predictions.SHOWN)] = "spread"
  warm_start_from: Any = None
  export_options: options.ExportOptions | None = None

  def __post_init__(self) -> None:
    durations.TrainingLength(train_steps=self.train_steps)
    # These raise for an object that is no hook, or no listener.
    session_run.adapt(self.train_hooks, "run.train_hooks")
    saving_listeners.check(self.saving_listeners, "run.saving_listeners")

  def input_fns(self) -> dict[Kind, Callable | None]:
    """Returns the input_fn of each kind; None where there is none."""
    return {
      Kind.TRAIN: self.train_input_fn,
      Kind.EVAL: self.eval_input_fn,
      Kind.PREDICT: self.predict_input_fn or self.eval_input_fn,
    }

  def batch_sizes(self) -> batch_sizes.BatchSizes:
    """Returns the bound batch sizes."""
    return batch_sizes.BatchSizes(**{name: getattr(self, name) for name in batch_sizes.SETTINGS})

  def all_exporters(self) -> Sequence[Any]:
    """Returns the exporters: by default one, of a SavedModel at the end."""
    return [exporters_lib.FinalExporter(name="")] if self.exporters is None else self.exporters

  def all_eval_specs(self, input_fn: Any) -> list[eval_spec.EvalSpec]:
    """Returns the EvalSpecs of the evaluation set and of the further sets.

    Args:
      input_fn: eval_input_fn, or its trace.
    """
    first = eval_spec.EvalSpec(
      input_fn,
      steps=self.eval_steps,
      throttle_secs=self.eval_throttle_secs,
      exporters=self.all_exporters(),
      report=self.evaluation_report,
    )
    return [self._with_class_names(each) for each in (first, *self.eval_specs)]

  def _with_class_names(self, each):
    """Returns an EvalSpec; its report uses the run's class names, unless it has its own."""
    if each.report is None or each.report.class_names is not None:
      return each
    report = dataclasses.replace(each.report, class_names=self.class_names)
    return dataclasses.replace(each, report=report)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Flags:
  """The command line of a run.

  Attributes:
    model_dir: the folder for all files.
    mode: one of MODES.
    device: see run_config.RunConfig, also for the next five.
    tpu: the same.
    cluster: the same.
    precision: the same.
    compiled: the same.
    seed: the run's seed; None for RunConfig.tf_random_seed.
    force: take model_dir away from another running training.
    dry_run: run one step of each kind on one batch, report problems, write nothing.
    benchmark_input: run the input pipelines of the mode alone, report their speed and the slowest
      stage, write nothing.
    profile: report the time of some training steps, with the hook Profiler.
    strict_gin: an unused binding is an error, not a warning.

  Raises:
    SettingError: the mode is unknown, lacks a model_dir, or has nothing to profile.
  """

  model_dir: str | None = None
  mode: str = "train_and_evaluate"
  device: str = "auto"
  tpu: str = ""
  cluster: str = ""
  precision: str = "float32"
  compiled: str = "auto"
  seed: int | None = None
  force: bool = False
  dry_run: bool = False
  benchmark_input: bool = False
  profile: bool = False
  strict_gin: bool = False

  def __post_init__(self) -> None:
    if self.mode not in MODES:
      raise errors.SettingError(f"--mode={self.mode}: expected one of {', '.join(MODES)}.")
    if not self.model_dir and not self.dry_run and not self.benchmark_input:
      raise errors.SettingError(
        "No model_dir: give --model_dir, the folder for checkpoints and summaries."
      )
    if self.profile and Kind.TRAIN not in _KINDS[self.mode]:
      raise errors.SettingError(
        f"--profile is for training steps, and --mode={self.mode} has none."
      )


def run(flags: Flags, asked: Experiment | None = None) -> dict[str, Any] | None:
  """Runs an experiment.

  Args:
    flags: the Flags.
    asked: the Experiment; None for the gin configuration's.

  Returns:
    The metrics of the last evaluation (dict), or None without an evaluation.

  Raises:
    errors.OctetError: names the remedy. After a mistake in a setting, an input_fn's shapes or a
      model_fn, no file has changed.
  """
  # 1. The settings, before reading or making anything.
  asked = asked or Experiment()  # type: ignore[call-arg]  # gin gives it the arguments
  if flags.model_dir:
    storage.check_answers(flags.model_dir, "--model_dir")
  input_fns: dict[Kind, Any] = asked.input_fns()
  _require_input_fns(flags.mode, input_fns)
  if Kind.EVAL in _KINDS[flags.mode]:
    eval_spec.check(asked.all_eval_specs(asked.eval_input_fn))

  # 2. The device and its estimator. From here on, the batch sizes fit the device.
  runner = make_estimator(asked, flags)
  mode = flags.mode
  if runner.device.role == "evaluator" and mode == "train_and_evaluate":
    mode = "continuous_eval"
  kinds = _KINDS[mode]
  runner.log_settings(kinds)

  # 3. The inputs alone, if the user asks for them: they need neither a checkpoint nor the model.
  if flags.benchmark_input:
    for kind in kinds:
      logging.info("The %s input. %s", kind, runner.time_input(kind, input_fns[kind]))
    logging.info("The training ran no step and wrote no file.")
    return None

  # 4. The cheapest failures first: a missing checkpoint, or a folder that another training uses.
  if not flags.dry_run:
    _check_model_dir(runner, mode)

  # 5. The trace of every step: it finds mistakes in the input_fns and in all branches of the
  # model_fn. Each trace replaces its input_fn, so that the run traces nothing twice.
  traced: dict[Kind, Any] = dict(input_fns)
  with preemption.explain_interrupt(preemption.NOTHING_TO_SAVE):
    for kind in kinds:
      traced[kind] = runner.trace(kind, input_fns[kind])
  if Kind.EVAL in kinds:
    _check_awaited(traced, runner.config.retention, asked)
    for each in asked.all_eval_specs(traced[Kind.EVAL]):
      if each.report:
        with preemption.explain_interrupt(preemption.NOTHING_TO_SAVE):
          each.report.check(runner.trace(Kind.PREDICT, each.input_fn))
  if mode == "train_and_evaluate":  # An export would otherwise refuse the model after a training.
    with preemption.explain_interrupt(preemption.NOTHING_TO_SAVE):
      train_evaluate.prepare_exports(runner, asked.all_eval_specs(traced[Kind.EVAL]))

  # 6. Unused bindings, after the traces, since they call everything that the model_fn calls, and
  # after the hooks, since they have their own bindings.
  hooks = _hooks(asked, flags)
  _report_dead_bindings(flags.strict_gin, Kind.TRAIN in kinds)

  # 7. The run itself.
  if flags.dry_run:
    for kind in kinds:
      logging.info("Dry run: %s", runner.try_step(kind, traced[kind]))
    logging.info("Dry run: no file written.")
    return None
  return _RUN[mode](runner, asked, traced, hooks)


def make_estimator(asked: Experiment, flags: Flags) -> estimator.Estimator:
  """Returns the Estimator of an Experiment on the device of the Flags.

  Raises:
    SettingError: a setting cannot work, or the device is missing.
  """
  seed: dict[str, Any] = {} if flags.seed is None else {"tf_random_seed": flags.seed}
  return estimator.Estimator(
    asked.model_fn,
    config=run_config.RunConfig(
      model_dir=flags.model_dir or os.path.join(tempfile.gettempdir(), "dry_run"),
      device=flags.device,
      tpu=flags.tpu,
      cluster=flags.cluster,
      train_input_service=asked.train_input_service,
      precision=flags.precision,
      compiled=flags.compiled,
      train_steps=asked.train_steps,
      force=flags.force,
      **seed,
    ),
    params=asked.params,
    warm_start_from=asked.warm_start_from,
    export_options=_with_class_names(asked.export_options, asked.class_names),
    **dataclasses.asdict(asked.batch_sizes()),
  )


def _train(runner, asked, traced, hooks):
  runner.train(
    traced[Kind.TRAIN],
    hooks=hooks,
    max_steps=_total_steps(runner, asked.train_steps),
    saving_listeners=asked.saving_listeners,
    ends_with_input=True,
  )
  hook_list.HookList(hooks, runner).finished()


def _train_and_evaluate(runner, asked, traced, hooks):
  train_spec = train_evaluate.TrainSpec(
    traced[Kind.TRAIN],
    max_steps=_total_steps(runner, asked.train_steps),
    hooks=hooks,
    saving_listeners=asked.saving_listeners,
  )
  eval_specs = asked.all_eval_specs(traced[Kind.EVAL])
  results = train_evaluate.train_and_evaluate(runner, train_spec, *eval_specs).get(None)
  if results is not None:
    _say_done(runner, results, asked.all_exporters())
  return results


def _evaluate_continuously(runner, asked, traced, hooks):
  del hooks
  return continuous.evaluate_continuously(
    runner,
    *asked.all_eval_specs(traced[Kind.EVAL]),
    max_steps=_total_steps(runner, asked.train_steps),
    timeout_secs=asked.eval_timeout_secs,
  ).get(None)


def _evaluate(runner, asked, traced, hooks):
  del hooks
  result = runner.evaluate(traced[Kind.EVAL], steps=asked.eval_steps)
  first, *_ = asked.all_eval_specs(traced[Kind.EVAL])
  if first.report:
    first.report.write(runner, first.input_fn, step=result["global_step"], steps=asked.eval_steps)
  return result


def _predict(runner, asked, traced, hooks):
  del hooks
  predicted = runner.predict(traced[Kind.PREDICT], with_examples=True)
  # Of the checkpoint that predict has loaded: a training beside may write another at any moment.
  step = int(runner.variables["global_step"].numpy())
  if not runner.device.is_chief:
    collections.deque(predicted, maxlen=0)  # Hosts of XLA devices compute each batch together.
    return
  predictions.save(
    os.path.join(runner.model_dir, f"predictions-{step}"),
    predicted,
    class_names=asked.class_names,
    images=asked.contact_sheet_images,
    shown=asked.contact_sheet,
    seed=runner.config.tf_random_seed,
  )


def _export(runner, asked, traced, hooks):
  del asked, traced, hooks
  runner.export_saved_model(os.path.join(runner.model_dir, "export"))


_RUN: dict[str, Callable[..., dict[str, Any] | None]] = {
  "train": _train,
  "evaluate": _evaluate,
  "train_and_evaluate": _train_and_evaluate,
  "continuous_eval": _evaluate_continuously,
  "predict": _predict,
  "export": _export,
}


def _hooks(asked, flags):
  profiling = [profiler.Profiler()] if flags.profile else []
  return [*asked.train_hooks, *profiling, _WriteConfiguration()]


def _require_input_fns(mode, input_fns):
  for kind in _KINDS[mode]:
    if input_fns[kind] is None:
      raise errors.SettingError(
        f"--mode={mode} needs an input_fn: bind run.{kind}_input_fn in a gin file."
      )


def _with_class_names(export_options, class_names):
  """Returns ExportOptions with the run's class names, unless they have their own."""
  export_options = options.check(export_options)
  if export_options.class_names is None:
    export_options = dataclasses.replace(export_options, class_names=class_names)
  return export_options


def _total_steps(runner: estimator.Estimator, train_steps: int | str | None) -> int | None:
  """Returns the number of steps of a duration, maybe in epochs or examples."""
  if Kind.TRAIN not in runner.batch_sizes():  # A run without training.
    return train_steps if isinstance(train_steps, int) else None
  return durations.TrainingLength(
    runner.batch_sizes()[Kind.TRAIN].global_size, runner.config.epoch_examples, train_steps
  ).total()


def _check_model_dir(runner, mode):
  if Kind.EVAL in _KINDS[mode]:
    evaluations_file.read(runner.model_dir, "")  # This raises for a damaged file.
  if Kind.TRAIN in _KINDS[mode]:
    with runner.hold_model_dir():
      pass
  elif mode != "continuous_eval":  # This waits for the first checkpoint.
    runner.check_values()


def _check_awaited(traced, keep, asked):
  """Raises SettingError if one waits for a metric that the traced evaluation does not give."""
  names = traced[Kind.EVAL].traced.metric_names()
  if names is None:
    return
  eval_specs = asked.all_eval_specs(traced[Kind.EVAL])
  waiting = [exporter for spec in eval_specs for exporter in spec.exporters]
  if isinstance(traced[Kind.TRAIN], loop_input.LoopInput):  # The run trains, too.
    waiting += asked.train_hooks
  for each in waiting:
    if hasattr(each, "check_metrics"):
      each.check_metrics(names)
  if getattr(keep, "best", 0):
    metric_values.require(keep.metric, names, "Retention.metric")


def _say_done(runner, results, exporters):
  model_dir = files.shown(runner.model_dir)
  shown = "\n".join(
    f"  {name:<16} {formatting.five_digits(value) if isinstance(value, float) else value}"
    for name, value in results.items()
  )
  exported = [
    exporters_lib.newest(os.path.join(model_dir, "export", exporter.name)) for exporter in exporters
  ]
  exported = next(filter(None, exported), None)
  logging.info(
    "Done.\n%s\n\nNext:\n%s",
    shown,
    "\n".join(
      f"  {what}\n    {shlex.join(command)}" for what, command in _next(runner, model_dir, exported)
    ),
  )


def _next(runner, model_dir, exported):
  """Yields (purpose, words of a shell command) for each useful next command."""
  # The folder above has the runs beside this one too, for TensorBoard to compare.
  above = os.path.dirname(model_dir)
  logdir = above if above and not os.path.isabs(model_dir) and "://" not in above else model_dir
  yield "learning curves", ["tensorboard", "--logdir", logdir]
  # A run configured in Python has no gin file that a next command could name.
  if "model_fn" in gin.get_bindings(Experiment, resolve_references=False):
    flags = [
      f"--gin_file={os.path.join(model_dir, 'config.gin')}",
      f"--model_dir={model_dir}",
      "--mode=predict",
    ]
    if runner.config.precision != "float32":
      flags.append(f"--precision={runner.config.precision}")
    if config.modules() not in (None, (config.trust.FOLDER,)):
      flags.append(f"--gin_modules={','.join(config.modules())}")
    yield "predictions for the evaluation set", ["python", "-m", "trainer.main", *flags]
  if exported:
    base = os.path.dirname(exported)
    predict = ["python", "-m", "trainer.predict", f"--export={base}", "--input=YOUR_FILES"]
    yield "predictions for files of yours", predict
    yield "a server (extra [serve])", ["python", "-m", "trainer.serve", f"--export_base={base}"]


def _report_dead_bindings(strict, trains):
  dead = config.dead_bindings(trains=trains)
  if not dead:
    return
  text = f"{len(dead)} gin bindings have no effect:\n" + "\n".join(
    f"  {binding}" for binding in dead
  )
  if strict:
    raise errors.SettingError(text + "\n(--strict_gin)")
  logging.warning("%s", text)


class _WriteConfiguration:
  """A hook that records the configuration of a training.

  It writes the parsed bindings when the training owns its folder and has its values: a refused
  training must leave another run's files unchanged. It writes the bindings in effect after the
  first loop.
  """

  def __init__(self):
    self._done = False

  def begin(self, estimator):
    if estimator.device.is_chief:
      files.write(os.path.join(estimator.model_dir, "config.gin"), config.parsed_text())
      environment.save(estimator.model_dir, estimator.device, estimator.config)

  def __call__(self, step, metrics, estimator):
    if self._done or not estimator.device.is_chief:
      return
    operative = config.operative_text()
    files.write(os.path.join(estimator.model_dir, "operative_config.gin"), operative)
    writer = summaries.Writer(estimator.model_dir)
    writer.text(step, "config", config.parsed_text())
    writer.text(step, "operative_config", operative)
    self._done = True
