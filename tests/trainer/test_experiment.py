"""The story of a run in all modes, by plain Python arguments."""

import json
import os
import shlex
import signal

import gin
import pytest
import tensorflow as tf
from absl import logging

import trainer
from tests.trainer import programs
from trainer import config, errors, experiment
from trainer.estimator import estimator
from trainer.hooks import early_stopping
from trainer.outputs import exporters, saved_model

SETTINGS = dict(
  model_fn=programs.line,
  train_input_fn=programs.train_input,
  eval_input_fn=programs.examples(11),
  train_steps=4,
  train_batch_size=8,
  eval_batch_size=8,
  device="cpu",
)


def run(model_dir, mode, **settings):
  return programs.run_experiment(
    **{**SETTINGS, "model_dir": str(model_dir), "mode": mode, **settings}
  )


def names(folder):
  return {path.name.split(".tfevents")[0] for path in folder.iterdir()}


def checkpoints(folder):
  return sorted(int(path.stem.rpartition("-")[2]) for path in folder.glob("model.ckpt-*.index"))


def test_one_mode_after_the_other(tmp_path):
  assert run(tmp_path, "train") is None
  assert checkpoints(tmp_path) == [0, 4]
  assert {"config.gin", "operative_config.gin", "environment.json"} <= names(tmp_path)

  # An evaluator works beside a training.
  result = run(tmp_path, "continuous_eval", exporters=[])
  assert result == run(tmp_path, "evaluate")
  assert set(result) == {"loss", "absolute_error", "global_step"}
  assert result["global_step"] == 4
  assert (tmp_path / "eval").is_dir()

  assert run(tmp_path, "predict") is None
  lines = (tmp_path / "predictions-4.jsonl").read_text().splitlines()
  assert [json.loads(line)["first"] for line in lines] == pytest.approx(
    programs.arrays(11)[0][:, 0].tolist(), rel=1e-6
  )

  assert run(tmp_path, "export") is None
  (exported,) = (tmp_path / "export").glob("[0-9]*")
  assert tf.saved_model.load(str(exported)).signatures["serving_default"](x=tf.ones([2, 3]))[
    "y"
  ].shape == [2]


def test_predictions_are_of_the_checkpoint_in_their_name(tmp_path, monkeypatch):
  """A training beside may write another checkpoint at any moment."""
  run(tmp_path, "train")
  predict = estimator.Estimator.predict

  def later(self, *arguments, **more):
    predictions = predict(self, *arguments, **more)
    programs.estimator(tmp_path, keep_checkpoint_max=1).train(programs.train_input, max_steps=9)
    return predictions

  y = [row["y"] for row in programs.estimator(tmp_path).predict(programs.examples(11))]
  monkeypatch.setattr(estimator.Estimator, "predict", later)
  run(tmp_path, "predict")
  (path,) = tmp_path.glob("predictions-*.jsonl")
  assert path.name == "predictions-4.jsonl"
  assert [json.loads(line)["y"] for line in path.read_text().splitlines()] == pytest.approx(
    y, rel=1e-6
  )


def test_training_with_evaluations_ends_with_metrics_and_export(tmp_path):
  result = run(tmp_path, "train_and_evaluate")
  assert result["global_step"] == 4
  assert result == run(tmp_path, "evaluate")
  (exported,) = (tmp_path / "export").glob("[0-9]*")
  assert (exported / "saved_model.pb").exists()
  # The same command again trains nothing, and exports nothing that is there.
  assert run(tmp_path, "train_and_evaluate") == result
  assert checkpoints(tmp_path) == [0, 4]
  assert list((tmp_path / "export").glob("[0-9]*")) == [exported]


def test_exporters_and_more_sets_to_evaluate(tmp_path):
  run(
    tmp_path,
    "train_and_evaluate",
    exporters=[exporters.BestExporter()],
    eval_specs=[trainer.EvalSpec(programs.examples(5), name="small")],
  )
  assert [path.name for path in (tmp_path / "export").iterdir()] == ["best"]
  assert {"eval", "eval_small"} <= {path.name for path in tmp_path.iterdir()}


def test_two_exporters_of_one_folder_are_refused_before_a_trace(tmp_path, monkeypatch):
  monkeypatch.setattr(estimator.Estimator, "trace", lambda *_: pytest.fail("traced"))
  best = exporters.BestExporter()
  small = trainer.EvalSpec(programs.examples(5), name="small", exporters=[best])
  message = r"BestExporter\('best'\) .* of the EvalSpec 'small' both export to"
  for mode in ("train_and_evaluate", "continuous_eval"):
    with pytest.raises(errors.SettingError, match=message):
      run(tmp_path / "run", mode, exporters=[exporters.BestExporter()], eval_specs=[small])
  assert not (tmp_path / "run").exists()


def test_a_training_of_so_many_epochs(tmp_path):
  gin.bind_parameter("RunConfig.epoch_examples", 20)
  run(tmp_path, "train", train_steps="2 epochs")
  assert checkpoints(tmp_path) == [0, 5]
  assert (
    run(tmp_path, "evaluate", train_steps="2 epochs", train_batch_size=None)["global_step"] == 5
  )


def test_what_run_passes_on_is_bound_there():
  with pytest.raises(
    errors.SettingError,
    match=r"gin cannot set RunConfig.train_steps: bind "
    r"run.train_steps\.",
  ):
    config.load([], ["RunConfig.train_steps = 5"], root=None)
  with pytest.raises(
    errors.SettingError,
    match=r"gin cannot set RunConfig.device: give the "
    r"flag --device",
  ):
    config.load([], ["RunConfig.device = 'cpu'"], root=None)


@pytest.mark.parametrize("mode", experiment.MODES)
def test_a_dry_run_writes_nothing(mode, tmp_path, caplog):
  with caplog.at_level("INFO", logger="absl"):
    assert run(tmp_path / "model", mode, dry_run=True) is None
  assert not (tmp_path / "model").exists()
  assert "Dry run: no file written." in caplog.text
  kinds = {
    "train_and_evaluate": ("train", "eval"),
    "evaluate": ("eval",),
    "continuous_eval": ("eval",),
    "export": ("predict",),
  }
  for kind in kinds.get(mode, (mode,)):
    assert f"one {kind} step" in caplog.text


def test_a_dry_run_needs_no_model_dir(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  monkeypatch.setenv("TMPDIR", str(tmp_path))
  monkeypatch.setattr("tempfile.tempdir", None)
  run("", "train_and_evaluate", dry_run=True)
  # But for what TensorFlow makes of the Python of an input_fn, and takes away in the end, where no
  # test before has had it make that.
  assert [
    path for path in tmp_path.iterdir() if not path.name.startswith("__autograph_generated_file")
  ] == []


def test_the_sizes_are_shown_in_one_table(tmp_path, caplog):
  with caplog.at_level("INFO", logger="absl"):
    run(tmp_path, "train_and_evaluate", dry_run=True)
  table = next(
    record.getMessage() for record in caplog.records if "batch sizes" in record.getMessage()
  )
  assert [line.split()[:2] for line in table.splitlines()[-2:]] == [["train", "8"], ["eval", "8"]]
  count = len(os.sched_getaffinity(0))
  assert table.startswith(f"Device: cpu, 1 replica, {count} thread{'s' * (count > 1)}. Precision:")


def test_an_export_says_what_takes_so_long(tmp_path, monkeypatch):
  said = []
  monkeypatch.setattr(logging, "info", lambda text, *arguments: said.append(text % arguments))
  monkeypatch.chdir(tmp_path)
  run("out/line", "train_and_evaluate")
  # TensorFlow logs beside them which files it writes.
  exporting, exported, done = [line for line in said if line.startswith(("Export", "Done"))]
  assert exporting == (
    "Exporting out/line/model.ckpt-4, and running the export in another process to check it ..."
  )
  assert exported.startswith("Exported out/line/model.ckpt-4 to ")
  # Beside this run the folder above has others to compare it with.
  assert "\n    tensorboard --logdir out\n" in done


MISTAKES = {
  "mode": (
    dict(mode="fit"),
    errors.SettingError,
    "--mode=fit: expected one of train, evaluate, train_and_evaluate, continuous_eval, predict",
  ),
  "model_dir": (dict(model_dir=""), errors.SettingError, "No model_dir: give --model_dir"),
  "profile": (
    dict(mode="predict", profile=True),
    errors.SettingError,
    "--profile is for training steps, and --mode=predict has none",
  ),
  "train_input_fn": (
    dict(train_input_fn=None),
    errors.SettingError,
    "--mode=train_and_evaluate needs an input_fn: bind run.train_input_fn",
  ),
  "eval_input_fn": (
    dict(eval_input_fn=None),
    errors.SettingError,
    "needs an input_fn: bind run.eval_input_fn",
  ),
  "predict_input_fn": (
    dict(eval_input_fn=None, mode="predict"),
    errors.SettingError,
    "bind run.predict_input_fn",
  ),
  "device": (dict(device="abacus"), errors.SettingError, "--device=abacus: expected auto, cpu"),
  "precision": (dict(precision="int8"), errors.SettingError, "--precision"),
  "batch size": (
    dict(train_batch_size=None),
    errors.SettingError,
    "No train batch size: set train_batch_size",
  ),
  "two batch sizes": (
    dict(eval_per_core_batch_size=8),
    errors.SettingError,
    "eval_batch_size .* or eval_per_core_batch_size .*, not both",
  ),
  "replicas": (
    dict(device="cpu:8", eval_batch_size=9),
    errors.SettingError,
    "eval batch size 9 must be divisible by number of replicas 8",
  ),
  "train_steps": (dict(train_steps=0), errors.SettingError, "max_steps|train_steps"),
  "eval_steps": (
    dict(eval_steps=-1),
    errors.SettingError,
    "steps is -1; expected an int greater than 0",
  ),
  "exporters": (
    dict(exporters=[3]),
    errors.SettingError,
    "the EvalSpec without a name has 3 among its exporters: expected exporters",
  ),
  "throttle": (
    dict(eval_throttle_secs=-1),
    errors.SettingError,
    "throttle_secs is .*; expected a number of at least 0",
  ),
  "input": (
    dict(eval_input_fn=lambda params: None),
    errors.SpecError,
    "eval input_fn .*returned None",
  ),
  "model_fn": (
    dict(model_fn=lambda features, labels, mode, params: None),
    errors.SpecError,
    "must return a trainer.EstimatorSpec",
  ),
  "evaluate": (
    dict(mode="evaluate"),
    errors.CheckpointNotFoundError,
    "There is no checkpoint in .*train first",
  ),
  "export": (
    dict(mode="export"),
    errors.CheckpointNotFoundError,
    "There is no checkpoint in .*train first",
  ),
}


@pytest.mark.parametrize(
  "settings, error, message", [pytest.param(*case, id=name) for name, case in MISTAKES.items()]
)
def test_mistakes_are_said_before_anything_is_written(settings, error, message, tmp_path):
  with pytest.raises(error, match=message):
    programs.run_experiment(**{**SETTINGS, "model_dir": str(tmp_path / "model"), **settings})
  assert not (tmp_path / "model").exists()


def test_damaged_evaluations_file_is_reported_before_a_trace(tmp_path):
  (tmp_path / "evaluations.json").write_text("{")
  with pytest.raises(errors.FileDamagedError, match="evaluations.json"):
    run(tmp_path, "train_and_evaluate", model_fn=lambda features, labels, mode: pytest.fail("late"))
  with pytest.raises(errors.FileDamagedError, match="evaluations.json"):
    trainer.train_and_evaluate(
      programs.estimator(tmp_path),
      trainer.TrainSpec(programs.train_input, max_steps=2),
      trainer.EvalSpec(programs.examples(3)),
    )
  assert [path.name for path in tmp_path.iterdir()] == ["evaluations.json"]


def test_what_to_do_next_can_be_pasted(tmp_path, monkeypatch):
  said = []
  monkeypatch.setattr(logging, "info", lambda text, *arguments: said.append(text % arguments))

  def next_commands(**settings):
    said.clear()
    run(folder, "train_and_evaluate", **settings)
    (text,) = [text for text in said if "Next:" in text]
    lines = text.partition("Next:\n")[2].splitlines()
    return [shlex.split(line) for line in lines if line.startswith("    ")]

  folder = tmp_path / "my run's"
  curves = ["tensorboard", "--logdir", str(folder)]
  of_export = [
    ["python", "-m", "trainer.predict", f"--export={folder}/export", "--input=YOUR_FILES"],
    ["python", "-m", "trainer.serve", f"--export_base={folder}/export"],
  ]
  assert next_commands() == [curves, *of_export]
  # Of a run that gin has configured, the configuration that it has written goes on.
  gin.bind_parameter("trainer.run.model_fn", programs.line)
  commands = next_commands(exporters=[], train_steps=5, precision="bfloat16")
  assert commands == [
    curves,
    [
      *("python", "-m", "trainer.main", f"--gin_file={folder}/config.gin"),
      *(f"--model_dir={folder}", "--mode=predict", "--precision=bfloat16"),
    ],
  ]


# ------------------------------------------------------- what is refused leaves


def contents(folder):
  """What is in a folder's own files, but for TensorBoard's."""
  return {
    path.name: path.read_bytes()
    for path in folder.iterdir()
    if path.is_file() and "tfevents" not in path.name
  }


def wider(features, labels, mode, params):
  return programs.line({"x": tf.concat([features["x"]] * 2, 1)}, labels, mode, params)


def test_training_that_does_not_fit_leaves_the_former_files(tmp_path):
  run(tmp_path, "train")
  before = contents(tmp_path)
  with pytest.raises(errors.CheckpointError, match="does not fit the model"):
    run(tmp_path, "train", model_fn=wider, train_steps=9, seed=5)
  assert contents(tmp_path) == before


def test_second_training_in_a_folder_is_refused_before_a_trace(tmp_path):
  before, refused = [], []

  def hook(step, metrics, runner):
    runner.wait_for_checkpoint()
    before.append(contents(tmp_path))
    for mode in ("train", "train_and_evaluate"):
      with pytest.raises(
        errors.ModelDirBusyError, match="Another training goes on in .*--force"
      ) as raised:
        run(
          tmp_path,
          mode,
          model_fn=lambda features, labels, mode, params: pytest.fail("traced"),
          seed=5,
        )
      refused.append(raised.value)
    assert contents(tmp_path) == before[-1]

  run(tmp_path, "train", train_hooks=[hook])
  assert len(refused) == 2 * len(before)
  assert {"config.gin", "environment.json", "training.lock"} <= set(before[0])
  assert "training.lock" not in contents(tmp_path)


def test_force_takes_the_folder_from_another_training(tmp_path):
  def hook(step, metrics, runner):
    assert run(tmp_path, "train", force=True, train_steps=9) is None

  with pytest.raises(errors.ModelDirBusyError, match="Another training took"):
    run(tmp_path, "train", train_hooks=[hook])
  assert checkpoints(tmp_path) == [0, 9]


def test_folder_is_locked_until_the_final_export_ends(tmp_path):
  class Exporter(exporters.FinalExporter):
    def export(self, *arguments):
      with pytest.raises(errors.ModelDirBusyError):
        run(tmp_path, "train")
      return super().export(*arguments)

  run(tmp_path, "train_and_evaluate", exporters=[Exporter(name="")])
  assert len(list((tmp_path / "export").glob("[0-9]*"))) == 1


def test_ctrl_c_while_steps_are_built_leaves_the_former_files(tmp_path):
  run(tmp_path, "train")
  before = contents(tmp_path)

  def input_fn(params):
    signal.raise_signal(signal.SIGINT)

  with pytest.raises(KeyboardInterrupt, match="before the first step there was nothing to save"):
    run(tmp_path, "train", train_input_fn=input_fn, train_steps=9)
  assert contents(tmp_path) == before


def test_complete_training_leaves_the_former_files(tmp_path):
  run(tmp_path, "train")
  before = contents(tmp_path)
  run(tmp_path, "train", seed=5)
  assert contents(tmp_path) == before


def test_only_the_inputs_of_the_mode_are_needed(tmp_path):
  run(tmp_path, "train", eval_input_fn=None, eval_batch_size=None)
  assert run(tmp_path, "evaluate", train_input_fn=None, train_batch_size=None)["global_step"] == 4


def test_a_training_traces_no_other_step_and_calls_its_hooks(tmp_path):
  modes, seen = [], []

  def model_fn(features, labels, mode, params):
    modes.append(mode)
    return programs.line(features, labels, mode, params)

  hook = lambda step, metrics, _: seen.append(step)
  run(tmp_path, "train", model_fn=model_fn, train_hooks=[hook])
  assert set(modes) == {"train"}
  assert seen[-1] == 4


def test_predict_may_have_its_own_input_and_batch_size(tmp_path):
  run(tmp_path, "train")
  run(tmp_path, "predict", predict_input_fn=programs.examples(3), predict_batch_size=2)
  assert len((tmp_path / "predictions-4.jsonl").read_text().splitlines()) == 3


def test_a_file_in_the_way_of_model_dir(tmp_path):
  (tmp_path / "model").write_text("a file")
  with pytest.raises(errors.OutputError, match="--model_dir"):
    run(tmp_path / "model", "train")


@pytest.mark.parametrize("mode", ["train", "train_and_evaluate"])
def test_saving_listeners_are_called_in_each_mode_that_trains(tmp_path, mode):
  seen = []

  class Listener(tf.compat.v1.train.CheckpointSaverListener):
    def after_save(self, session, step):
      seen.append(step)

  run(tmp_path, mode, saving_listeners=[Listener()], exporters=[])
  assert seen == [0, 4]


@pytest.mark.parametrize(
  ("settings", "named"),
  [
    (lambda: {"exporters": [exporters.BestExporter("accurcy")]}, "BestExporter.metric"),
    (
      lambda: {"train_hooks": [early_stopping.EarlyStopping("accurcy", patience=1)]},
      "EarlyStopping.metric",
    ),
    (
      lambda: {
        "eval_specs": [
          trainer.EvalSpec(
            programs.examples(3), name="a", exporters=[exporters.BestExporter("accurcy")]
          )
        ]
      },
      "BestExporter.metric",
    ),
  ],
)
def test_awaited_metric_is_looked_up_before_the_training(tmp_path, settings, named):
  with pytest.raises(
    errors.SettingError, match=f"{named} is 'accurcy'; the evaluation gives absolute_error, loss"
  ):
    run(tmp_path / "m", "train_and_evaluate", **settings())
  assert not (tmp_path / "m").exists()


def test_what_an_export_refuses_is_told_before_training(tmp_path):
  def model_fn(features, labels, mode, params):
    if mode == "infer":
      features = {"x": tf.ensure_shape(features["x"], [8, 2])}  # of a training's batch
    return programs.line(features, labels, mode, params)

  for mode in ({"mode": "train_and_evaluate"}, {"mode": "train_and_evaluate", "dry_run": True}):
    with pytest.raises(errors.ModelFnError, match="mode 'infer'"):
      run(tmp_path, model_fn=model_fn, **mode)
  assert not checkpoints(tmp_path)


def test_export_uses_the_trace_that_tried_it(tmp_path, monkeypatch):
  traced = []
  trace = saved_model.trace
  monkeypatch.setattr(
    saved_model, "trace", lambda *arguments: traced.append(arguments[2]) or trace(*arguments)
  )
  run(tmp_path, "train_and_evaluate")
  assert traced == [None]
  assert len(list((tmp_path / "export").glob("[0-9]*"))) == 1


@pytest.mark.parametrize(
  ("settings", "said"),
  [
    (lambda: {"model_dir": "foo://x/y"}, "Cannot read --model_dir=foo://x/y: File system sch"),
    (
      lambda: {"exporters": [exporters.BestExporter(assets_extra={"a": "/no/such"})]},
      "BestExporter.assets_extra: there is no file /no/such to copy as a",
    ),
  ],
)
def test_impossible_writes_and_copies_fail_before_training(tmp_path, settings, said):
  with pytest.raises(errors.SettingError, match=said):
    run(**{"model_dir": tmp_path / "m", "mode": "train_and_evaluate", **settings()})
  assert not (tmp_path / "m").exists()


def test_best_checkpoint_metric_is_looked_up_before_training(tmp_path):
  gin.parse_config(
    "RunConfig.retention = @Retention()\nRetention.best = 1\nRetention.metric = 'accurcy'"
  )
  try:
    with pytest.raises(errors.SettingError, match="Retention.metric is 'accurcy'; the evaluation"):
      run(tmp_path / "m", "train_and_evaluate")
  finally:
    config.clear()
  assert not (tmp_path / "m").exists()


def test_the_seed_is_the_runs(tmp_path):
  def shuffled(params):
    x, y = programs.arrays(64)
    return (
      tf.data.Dataset.from_tensor_slices(({"x": x}, y))
      .shuffle(64)
      .repeat()
      .batch(params["batch_size"], drop_remainder=True)
    )

  def loss(name, seed):
    losses = []
    hook = lambda step, metrics, _: losses.append(metrics["loss"])
    run(tmp_path / name, "train", train_input_fn=shuffled, seed=seed, train_hooks=[hook])
    return losses[-1]

  losses = [loss(name, seed) for name, seed in (("a", 1), ("b", 1), ("c", 2))]
  assert losses[0] == losses[1] != losses[2]


@pytest.mark.parametrize(
  "setting, value, message",
  [
    ("eval_specs", [3], r"run.eval_specs is .3.; expected a list .each: an EvalSpec. such as"),
    ("eval_specs", 3, r"run\.eval_specs is 3; expected a list"),
    ("exporters", 3, r"run\.exporters is 3; expected a list"),
    ("train_hooks", 3, r"run\.train_hooks is 3; expected a list"),
    (
      "saving_listeners",
      [3],
      r"run\.saving_listeners: a listener has the methods begin, .*; int la",
    ),
    ("eval_throttle_secs", "x", r"run\.eval_throttle_secs is .x.; expected a number of at least 0"),
    ("eval_timeout_secs", "x", r"run\.eval_timeout_secs is .x.; expected a number of at least 0"),
    ("params", [1], r"run\.params is \[1\]; expected a dict"),
    ("train_steps", 2**62, r"run\.train_steps is \d+; expected less than 2\*\*62"),
    ("train_steps", "1e30 steps", r"run\.train_steps must be less than 2\*\*62"),
    ("eval_steps", 10**30, r"run\.eval_steps is 1000.*; expected less than 2\*\*62"),
    ("device", "cpu:100000", r"--device=cpu:100000: a CPU rehearses at most 1024 virtual cores"),
  ],
)
def test_settings_of_a_wrong_kind_or_size_are_one_sentence(setting, value, message, tmp_path):
  with pytest.raises(errors.SettingError, match=message):
    run(tmp_path, "train_and_evaluate", **{setting: value})
  assert not list(tmp_path.iterdir())


def test_a_binding_of_the_profile_that_a_flag_asks_for_is_used(tmp_path, caplog):
  config.load((), ["Profiler.first = 1", "Profiler.last = 2"], root=None)
  with caplog.at_level("INFO", logger="absl"):
    run(tmp_path, "train", profile=True, strict_gin=True)
  assert "Profile of the steps up to 2" in caplog.text
