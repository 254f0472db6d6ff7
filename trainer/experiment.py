"""The story of a run: device → inputs → estimator → loop, by mode.

`run` is the one function that a gin config must bind.

    run.model_fn = @digits_mlp.model_fn
    run.train_input_fn = @train/digits.input_fn
    run.train_batch_size = 32

Layout of what it writes, beside what `trainer.checkpoints.directory` does:

    <model_dir>/config.gin               the bindings as parsed, when a training begins
    <model_dir>/operative_config.gin     those that took effect, after the first loop
    <model_dir>/environment.json         what the training runs on
    <model_dir>/eval/                    TensorBoard files of evaluations
    <model_dir>/export/                  SavedModels, see `trainer.outputs.exporters`
    <model_dir>/predictions-<step>.*     see `trainer.outputs.predictions`
"""

import dataclasses
import os
import shlex
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import gin
from absl import logging

from trainer import config, errors, run_config, scheduled_evaluations, train_evaluate
from trainer.checkpoints import retention
from trainer.config import gin_names
from trainer.estimator import estimator

# Gin files name these without an import: keras_model, the hooks.
from trainer.hooks import (
  early_stopping,  # noqa: F401
  histograms,  # noqa: F401
  periodic,  # noqa: F401
  profiler,
  session_run,
)
from trainer.io import files, storage
from trainer.loop import preemption
from trainer.outputs import completion, options, predictions
from trainer.outputs import exporters as exporters_lib
from trainer.reporting import environment, host_metrics, summaries
from trainer.settings import durations, setting_types
from trainer.settings.kinds import Kind

MODES = ("train", "evaluate", "train_and_evaluate", "continuous_eval", "predict", "export")

# What a mode does, by the kinds of step that it runs.
_KINDS = {
  "train": (Kind.TRAIN,),
  "evaluate": (Kind.EVAL,),
  "train_and_evaluate": (Kind.TRAIN, Kind.EVAL),
  "continuous_eval": (Kind.EVAL,),
  "predict": (Kind.PREDICT,),
  "export": (Kind.PREDICT,),
}


@gin_names.configurable(
  module="trainer",
  denylist=[
    "model_dir",
    "mode",
    "device",
    "tpu",
    "cluster",
    "precision",
    "xla",
    "seed",
    "force",
    "dry_run",
    "benchmark_input",
    "profile",
    "strict_gin",
  ],
)
def run(
  *,
  model_fn: Callable,
  train_input_fn: Callable | None = None,
  train_input_service: str = "",
  eval_input_fn: Callable | None = None,
  predict_input_fn: Callable | None = None,
  params: Mapping[str, Any] | None = None,
  train_steps: int | str | None = None,
  eval_steps: setting_types.Count | None = None,
  eval_throttle_secs: setting_types.NotNegative = 0,
  eval_timeout_secs: setting_types.NotNegative = 3600.0,
  eval_specs: Annotated[Sequence[train_evaluate.EvalSpec], "such as [@test/EvalSpec()]"] = (),
  exporters: Annotated[Sequence[Any], "of exporters, such as [@BestExporter()]"] | None = None,
  train_batch_size: setting_types.Count | None = None,
  eval_batch_size: setting_types.Count | None = None,
  predict_batch_size: setting_types.Count | None = None,
  train_per_core_batch_size: setting_types.Count | None = None,
  eval_per_core_batch_size: setting_types.Count | None = None,
  predict_per_core_batch_size: setting_types.Count | None = None,
  train_hooks: Annotated[Sequence[Any], "of hooks, such as [@EarlyStopping()]"] = (),
  class_names: options.ClassNames | None = None,
  contact_sheet_images: setting_types.Natural = 24,
  contact_sheet: Annotated[str, setting_types.one_of(*predictions.SHOWN)] = "spread",
  warm_start_from: Any = None,
  export_options: options.ExportOptions | None = None,
  model_dir: str | None = None,
  mode: str = "train_and_evaluate",
  device: str = "auto",
  tpu: str = "",
  cluster: str = "",
  precision: str = "float32",
  xla: bool = False,
  seed: int | None = None,
  force: bool = False,
  dry_run: bool = False,
  benchmark_input: bool = False,
  profile: bool = False,
  strict_gin: bool = False,
) -> dict[str, Any] | None:
  """Runs an experiment.

  Args:
    model_fn: see `trainer.spec`.
    train_input_fn: the input_fn of the training, see `trainer.inputs`.
    train_input_service: "grpc://host:port" of a tf.data service on which the train_input_fn is run,
      see `trainer.inputs.data_service`.
    eval_input_fn: that of the evaluations.
    predict_input_fn: that of predictions; default: eval_input_fn.
    params: dict for all of them.
    train_steps: the global step to end at, or a duration such as "50 epochs", see
      `trainer.settings.durations`; None for the end of the input.
    eval_steps: global batches to evaluate; None for the whole set.
    eval_throttle_secs: the least time between two evaluations while training.
    eval_timeout_secs: of --mode=continuous_eval, which ends when no checkpoint has come for so
      long.
    eval_specs: list of EvalSpecs, of sets that are evaluated as well; each needs a name.
    exporters: list of exporters, see `trainer.outputs.exporters`; None for one SavedModel at the
      end, in <model_dir>/export/<number>.
    train_batch_size: examples in a training step of all cores together.
    eval_batch_size: the same of an evaluation step.
    predict_batch_size: the same of a prediction step; default: that of evaluation.
    train_per_core_batch_size: of one core, in place of train_batch_size.
    eval_per_core_batch_size: of one core, in place of eval_batch_size.
    predict_per_core_batch_size: of one core, in place of predict_batch_size.
    train_hooks: list of hooks, see `trainer.hooks`.
    class_names: list of str, the classes' names in the order of their numbers, for predictions;
      None to show numbers.
    contact_sheet_images: how many images the contact sheet of predictions has; 0 for no contact
      sheet.
    contact_sheet: which examples the sheet and the table of predictions show: "spread" for some of
      the whole set, the same for the same seed; "worst" for wrong ones, those whose label has
      the least probability first.
    warm_start_from: a path or WarmStartSettings, see `trainer.checkpoints.warm_start`.
    export_options: an ExportOptions; by default it has the class_names above.
    model_dir: where everything is written.
    mode: one of MODES.
    device: see run_config.RunConfig.
    tpu: see run_config.RunConfig.
    cluster: see run_config.RunConfig.
    precision: see run_config.RunConfig.
    xla: see run_config.RunConfig.
    seed: the run's seed; None for RunConfig.tf_random_seed.
    force: take model_dir from another training that goes on there.
    dry_run: run one step of each kind on one batch, say what was found, write nothing.
    benchmark_input: run the input pipelines of the mode alone, say how fast they are and which
      stage is the slowest, write nothing.
    profile: say where the time of some training steps goes, with the hook Profiler.
    strict_gin: bindings that nobody uses are an error, not a warning.

  Returns:
    The metrics of the last evaluation (dict) where there is one, else None.

  Raises:
    errors.OctetError: says what to change. Nothing was written if the mistake is in a setting, an
      input_fn's shapes or a model_fn.
  """
  # 1. What is asked for. Before anything is read or made.
  _check_mode(mode, model_dir, writes=not dry_run and not benchmark_input, profile=profile)
  durations.TrainingLength(train_steps=train_steps)
  if model_dir:
    storage.check_answers(model_dir, "--model_dir")
  input_fns: dict[Kind, Any] = {
    Kind.TRAIN: train_input_fn,
    Kind.EVAL: eval_input_fn,
    Kind.PREDICT: predict_input_fn or eval_input_fn,
  }
  kinds = _KINDS[mode]
  _require_input_fns(mode, input_fns)
  exporters = [exporters_lib.FinalExporter(name="")] if exporters is None else exporters

  def all_eval_specs():
    first = train_evaluate.EvalSpec(
      input_fns[Kind.EVAL], steps=eval_steps, throttle_secs=eval_throttle_secs, exporters=exporters
    )
    return [first, *eval_specs]

  if Kind.EVAL in kinds:
    scheduled_evaluations.check_specs(all_eval_specs())
  session_run.adapt(train_hooks, "run.train_hooks")  # which raises for what is no hook

  # 2. The device and the estimator on it. Which sizes fit is known from here on.
  settings: dict[str, Any] = dict(
    model_dir=model_dir or os.path.join(tempfile.gettempdir(), "dry_run"),
    device=device,
    tpu=tpu,
    cluster=cluster,
    train_input_service=train_input_service,
    precision=precision,
    xla=xla,
    train_steps=train_steps,
    force=force,
  )
  if seed is not None:
    settings["tf_random_seed"] = seed
  runner = estimator.Estimator(
    model_fn,
    config=run_config.RunConfig(**settings),
    params=params,
    train_batch_size=train_batch_size,
    eval_batch_size=eval_batch_size,
    predict_batch_size=predict_batch_size,
    train_per_core_batch_size=train_per_core_batch_size,
    eval_per_core_batch_size=eval_per_core_batch_size,
    predict_per_core_batch_size=predict_per_core_batch_size,
    warm_start_from=warm_start_from,
    export_options=_with_class_names(export_options, class_names),
  )
  if runner.device.role == "evaluator" and mode == "train_and_evaluate":
    mode = "continuous_eval"
    kinds = _KINDS[mode]
  runner.introduce(kinds)
  max_steps = _total_steps(runner, train_steps)

  # 3. The inputs alone, if that is asked for: neither a checkpoint nor the model is needed.
  if benchmark_input:
    for kind in kinds:
      logging.info("The %s input. %s", kind, runner.time_input(kind, input_fns[kind]))
    logging.info("Nothing was trained or written.")
    return None

  # 4. What is the cheapest thing to miss: a checkpoint, where one is needed, or a folder that no
  #    other training is at work in.
  if not dry_run:
    _check_model_dir(runner, mode)

  # 5. Every step that will be run is traced, which finds mistakes in the input_fns and in all
  #    branches of the model_fn. What was traced takes the place of its input_fn.
  with preemption.explain_interrupt(preemption.NOTHING_TO_SAVE):
    for kind in kinds:
      input_fns[kind] = runner.trace(kind, input_fns[kind])

  if Kind.EVAL in kinds:
    hearing = train_hooks if Kind.TRAIN in kinds else ()
    _check_awaited(input_fns[Kind.EVAL], runner.config.retention, all_eval_specs(), hearing)

  # 6. Bindings that nobody uses: after the tracing, which calls what the model_fn calls.
  _report_dead_bindings(strict_gin)

  # 7. The run itself.
  if dry_run:
    for kind in kinds:
      logging.info("Dry run: %s", runner.try_step(kind, input_fns[kind]))
    logging.info("Dry run: nothing was written.")
    return None
  hooks = [*train_hooks, *([profiler.Profiler()] if profile else []), _WriteConfiguration()]
  if mode == "train":
    runner.train(input_fns[Kind.TRAIN], hooks=hooks, max_steps=max_steps, ends_with_input=True)
    return None
  if mode == "train_and_evaluate":
    train_spec = train_evaluate.TrainSpec(input_fns[Kind.TRAIN], max_steps=max_steps, hooks=hooks)
    results = train_evaluate.train_and_evaluate(runner, train_spec, *all_eval_specs()).get(None)
    if results is not None:
      _say_done(runner, results, exporters)
    return results
  if mode == "continuous_eval":
    return train_evaluate.evaluate_continuously(
      runner, *all_eval_specs(), max_steps=max_steps, timeout_secs=eval_timeout_secs
    ).get(None)
  if mode == "evaluate":
    return runner.evaluate(input_fns[Kind.EVAL], steps=eval_steps)
  if mode == "predict":
    shown = dict(class_names=class_names, images=contact_sheet_images, shown=contact_sheet)
    _predict(runner, input_fns[Kind.PREDICT], shown)
    return None
  runner.export_saved_model(os.path.join(runner.model_dir, "export"))
  return None


def _check_mode(mode, model_dir, writes, profile):
  if mode not in MODES:
    raise errors.SettingError(f"--mode={mode}: expected one of {', '.join(MODES)}.")
  if not model_dir and writes:
    raise errors.SettingError(
      "No model_dir: give --model_dir, the folder for checkpoints and summaries."
    )
  if profile and Kind.TRAIN not in _KINDS[mode]:
    raise errors.SettingError(f"--profile is of training steps, and --mode={mode} has none.")


def _require_input_fns(mode, input_fns):
  for kind in _KINDS[mode]:
    if input_fns[kind] is None:
      raise errors.SettingError(
        f"--mode={mode} needs an input_fn: bind run.{kind}_input_fn in a gin file."
      )


def _with_class_names(export_options, class_names):
  """The ExportOptions, which take the run's class names where they have none of their own."""
  export_options = completion.check_options(export_options)
  if export_options.class_names is None:
    export_options = dataclasses.replace(export_options, class_names=class_names)
  return export_options


def _total_steps(runner: estimator.Estimator, train_steps: int | str | None) -> int | None:
  """The number of steps of a duration, which may be in epochs or examples."""
  if Kind.TRAIN not in runner.batch_sizes():  # a run that does not train
    return train_steps if isinstance(train_steps, int) else None
  return durations.TrainingLength(
    runner.batch_sizes()[Kind.TRAIN].global_size, runner.config.epoch_examples, train_steps
  ).total()


def _check_model_dir(runner, mode):
  if Kind.EVAL in _KINDS[mode]:
    retention.read_evaluations(runner.model_dir, "")  # which raises for a damaged file
  if Kind.TRAIN in _KINDS[mode]:
    with runner.alone_in_model_dir():
      pass
  elif mode != "continuous_eval":  # which waits for the first checkpoint
    runner.check_values()


def _check_awaited(evaluation, keep, eval_specs, hooks):
  """Raises SettingError if one waits for a metric that the traced evaluation does not give."""
  names = evaluation.metric_names()
  if names is None:
    return
  for waiting in [*(exporter for spec in eval_specs for exporter in spec.exporters), *hooks]:
    if hasattr(waiting, "check_metrics"):
      waiting.check_metrics(names)
  if getattr(keep, "best", 0):
    host_metrics.require(keep.metric, names, "Retention.metric")


def _predict(runner, input_fn, shown):
  predicted = runner.predict(input_fn, with_examples=True)
  # Of the checkpoint that predict has loaded: a training beside may write another at any moment.
  step = int(runner.variables["global_step"].numpy())
  path = os.path.join(runner.model_dir, f"predictions-{step}")
  predictions.save(path, predicted, **shown, seed=runner.config.tf_random_seed)


def _say_done(runner, results, exporters):
  model_dir = files.shown(runner.model_dir)
  shown = "\n".join(
    f"  {name:<16} {value:.5g}" if isinstance(value, float) else f"  {name:<16} {value}"
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
  """Yields (what it is good for, the words of a shell command)."""
  yield "learning curves", ["tensorboard", "--logdir", model_dir]
  # A run that is configured in Python has no such file to go on with.
  if "model_fn" in gin.get_bindings(run, resolve_references=False):
    flags = [
      f"--gin_file={os.path.join(model_dir, 'config.gin')}",
      f"--model_dir={model_dir}",
      "--mode=predict",
    ]
    if runner.config.precision != "float32":
      flags.append(f"--precision={runner.config.precision}")
    if config.modules() not in (None, (config.trust.FOLDER,)):
      flags.append(f"--gin_modules={','.join(config.modules())}")
    yield "predictions as JSON lines", ["python", "-m", "trainer.main", *flags]
  if exported:
    yield "the model, without Octet", ["saved_model_cli", "show", "--all", "--dir", exported]


def _report_dead_bindings(strict):
  dead = config.dead_bindings()
  if not dead:
    return
  text = f"{len(dead)} gin bindings are set and never used:\n" + "\n".join(
    f"  {binding}" for binding in dead
  )
  if strict:
    raise errors.SettingError(text + "\n(--strict_gin)")
  logging.warning("%s", text)


class _WriteConfiguration:
  """A hook that writes down how a training is configured.

  What was parsed is written once the training has its folder and its values, since a training that
  is refused must leave those of another as they are. What took effect is written after the first
  loop.
  """

  def __init__(self):
    self._done = False

  def begin(self, estimator):
    if estimator.device.is_chief:
      files.write_text(os.path.join(estimator.model_dir, "config.gin"), config.parsed_text())
      environment.save(estimator.model_dir, estimator.device, estimator.config)

  def __call__(self, step, metrics, estimator):
    if self._done or not estimator.device.is_chief:
      return
    operative = config.operative_text()
    files.write_text(os.path.join(estimator.model_dir, "operative_config.gin"), operative)
    writer = summaries.Writer(estimator.model_dir)
    writer.text(step, "config", config.parsed_text())
    writer.text(step, "operative_config", operative)
    self._done = True
