"""Estimator.train: where it starts and ends, what it calls on the way, and what it says when it
cannot.
"""

import math
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf

import trainer
from tests.trainer import programs
from trainer import errors
from trainer.checkpoints import commit, reader
from trainer.reporting import metrics_file


def steps_of(estimator, **arguments):
  """The steps at which hooks are called in a training."""
  seen = []
  estimator.train(
    programs.train_input, hooks=[lambda step, metrics, _: seen.append(step)], **arguments
  )
  return seen


# ------------------------------------------------------------------- how long


@pytest.mark.parametrize(
  "arguments, message",
  [
    ({"steps": 5, "max_steps": 5}, r"train: set steps \(5\) or max_steps \(5\), not both"),
    ({"steps": 0}, "train: steps is 0; expected an int greater than 0"),
    ({"steps": 5.0}, "train: steps is 5.0; expected an int greater than 0"),
    ({"max_steps": -1}, "train: max_steps is -1; expected an int greater than 0"),
    ({"max_steps": True}, "train: max_steps is True; expected an int greater than 0"),
  ],
)
def test_steps_or_max_steps(arguments, message, tmp_path, device):
  with pytest.raises(errors.SettingError, match=message):
    programs.estimator(tmp_path / "model", device=device).train(programs.train_input, **arguments)
  assert not (tmp_path / "model").exists()


def test_steps_add_up_and_max_steps_do_not(tmp_path, caplog):
  estimator = programs.estimator(tmp_path)
  assert estimator.train(programs.train_input, steps=3) is estimator
  estimator.train(programs.train_input, steps=2)
  assert estimator.latest_step() == 5
  estimator.train(programs.train_input, max_steps=7)
  assert estimator.latest_step() == 7
  with caplog.at_level("INFO", logger="absl"):
    assert estimator.train(programs.train_input, max_steps=6) is estimator
  assert estimator.latest_step() == 7
  assert "Training is complete" in caplog.text
  assert "at step 7, max_steps is 6" in caplog.text


def test_a_single_long_loop_is_shortened(tmp_path):
  assert steps_of(programs.estimator(tmp_path, **programs.fixed_loops(40)), steps=12) == [12]


def test_by_default_loops_end_at_every_cadence(tmp_path):
  seen = steps_of(
    programs.estimator(
      tmp_path, save_checkpoints_steps=10, save_summary_steps=15, log_step_count_steps=25
    ),
    steps=60,
  )
  assert {10, 15, 20, 25, 30, 40, 45, 50, 60} <= set(seen)
  assert len(seen) < 30


def test_a_short_training_is_a_curve_too(tmp_path):
  programs.estimator(tmp_path).train(programs.train_input, steps=70)
  lines = [line for line in metrics_file.read(tmp_path) if line["kind"] == "train"]
  assert [line["step"] for line in lines] == [10, 20, 50, 70]
  programs.estimator(tmp_path).train(programs.train_input, max_steps=130)  # begins at none of them
  lines = [line for line in metrics_file.read(tmp_path) if line["kind"] == "train"]
  assert [line["step"] for line in lines][4:] == [100, 130]


def test_a_resumed_training_goes_on_from_the_newest_checkpoint(tmp_path):
  programs.estimator(tmp_path).train(programs.train_input, steps=3)
  second = programs.estimator(tmp_path, **programs.fixed_loops(4))
  assert steps_of(second, max_steps=10) == [7, 10]


def test_a_hook_ends_the_training_and_what_was_learnt_is_kept(tmp_path):
  estimator = programs.estimator(tmp_path, **programs.fixed_loops(2))
  estimator.train(programs.train_input, steps=100, hooks=[lambda step, metrics, _: step >= 6])
  assert estimator.latest_step() == 6


# ---------------------------------------------------------------------- input


@pytest.mark.parametrize(
  "loops",
  [{}, pytest.param(programs.fixed_loops(2), marks=pytest.mark.long), programs.fixed_loops(40)],
  ids=["default", "2", "40"],
)
def test_input_that_ends_early_is_said(loops, tmp_path, caplog):
  estimator = programs.estimator(tmp_path, **loops)
  with caplog.at_level("WARNING", logger="absl"):
    estimator.train(programs.batches(6), max_steps=50)
  assert "Training ended: input exhausted at step 6 of 50" in caplog.text
  assert estimator.latest_step() == 6


def test_without_an_end_the_training_is_as_long_as_the_input(tmp_path, caplog):
  with caplog.at_level("WARNING", logger="absl"):
    estimator = programs.estimator(tmp_path).train(programs.batches(5))
  assert estimator.latest_step() == 5
  assert "exhausted" not in caplog.text


def test_two_cores_need_two_batches_for_a_step(tmp_path):
  estimator = programs.estimator(tmp_path, device="cpu:2").train(programs.batches(2 * 2 + 1))
  assert estimator.latest_step() == 2


def test_each_call_reads_its_input_from_the_beginning(tmp_path):
  """An epoch a call, as Estimator programs have it."""
  estimator = programs.estimator(tmp_path)
  epoch = programs.batches(5)
  for count in (1, 2, 3):
    estimator.train(epoch)
    assert estimator.latest_step() == 5 * count


@pytest.mark.long  # tests/conformance/test_training.py resumes in the gate, to the same bits
def test_restarted_run_resumes_at_its_position_in_the_data(tmp_path):
  def run(name, *steps):
    for count in steps:
      estimator = programs.estimator(tmp_path / name)
      estimator.train(programs.train_input, steps=count)
    return estimator.get_variable_value("w")

  np.testing.assert_array_equal(run("once", 7), run("in parts", 3, 4))


def test_each_call_reads_from_the_start_even_after_a_due_save(tmp_path):
  estimator = programs.estimator(tmp_path, save_checkpoints_steps=5)
  epoch = programs.batches(5)
  for count in (1, 2, 3):
    estimator.train(epoch)
    assert estimator.latest_step() == 5 * count
    assert estimator.get_variable_value("examples_seen") == 0


# ------------------------------------------------------ which checkpoint it is


def copied_checkpoint(whole, folder, step):
  """Puts the checkpoint of a step into a folder, as another process that writes there would."""
  folder.mkdir(exist_ok=True)
  for path in whole.glob(f"model.ckpt-{step}.*"):
    shutil.copy(path, folder)


@pytest.fixture
def whole(tmp_path):
  """The folder of a training with all checkpoints up to step 6."""
  programs.estimator(tmp_path / "whole", save_checkpoints_steps=2, keep_checkpoint_max=0).train(
    programs.train_input, max_steps=6
  )
  return tmp_path / "whole"


def test_checkpoint_that_appears_during_start_is_not_mixed_in(whole, tmp_path):
  """Weights, step and place in the data are those of the checkpoint that was the newest when it
  was asked for.
  """
  run = tmp_path / "run"
  copied_checkpoint(whole, run, 2)

  def input_fn(params):
    copied_checkpoint(whole, run, 4)
    return programs.train_input(params)

  log = []
  estimator = programs.estimator(run)
  estimator.train(input_fn, max_steps=6, saving_listeners=[Recorder(log, "listener")])
  assert [entry[2] for entry in log if entry[1] == "after"] == [6]
  expected = reader.read(str(whole / "model.ckpt-6"), ["w", "examples_seen"])
  np.testing.assert_array_equal(estimator.get_variable_value("w"), expected["w"])
  assert estimator.get_variable_value("examples_seen") == expected["examples_seen"] == 6 * 8


def test_checkpoint_that_appears_after_the_trace_is_resumed(whole, tmp_path):
  run = tmp_path / "run"
  copied_checkpoint(whole, run, 2)
  estimator = programs.estimator(run)
  estimator.trace("train", programs.train_input)
  copied_checkpoint(whole, run, 4)
  assert steps_of(estimator, max_steps=6)[0] == 5
  expected = reader.read(str(whole / "model.ckpt-6"), ["w", "examples_seen"])
  np.testing.assert_array_equal(estimator.get_variable_value("w"), expected["w"])
  assert estimator.get_variable_value("examples_seen") == expected["examples_seen"]


# --------------------------------------------------------------- what is empty


@pytest.mark.parametrize("device, count", [("cpu", 0), ("cpu:2", 1)])
def test_empty_input_is_an_error(device, count, tmp_path):
  with pytest.raises(
    errors.InputError,
    match="train input_fn .*gave no batch for a step: its dataset is empty or too small",
  ):
    programs.estimator(tmp_path, device=device).train(programs.batches(count), steps=3)


def test_an_error_while_the_input_is_read_is_an_input_error(tmp_path):
  def input_fn(params):
    def check(x, y):
      with tf.control_dependencies([tf.debugging.assert_less(y, 1e9, "a label is out of range")]):
        return x, tf.identity(y)

    return programs.train_input(params).map(lambda x, y: (x, y + 1e10)).map(check)

  with pytest.raises(errors.InputError, match="a label is out of range"):
    programs.estimator(tmp_path).train(input_fn, steps=3)


# ------------------------------------------------------- hooks and listeners


class Recorder:
  """A hook and a saving listener that writes down what is called."""

  def __init__(self, log, name, stop_at=None):
    self._log, self._name, self._stop_at = log, name, stop_at

  def _note(self, event, step=None):
    self._log.append((self._name, event) if step is None else (self._name, event, step))

  def begin(self, estimator=None):
    self._note("begin")

  def __call__(self, step, metrics, estimator):
    self._note("step", step)

  def before_save(self, session, step):
    assert session is None
    self._note("before", step)

  def after_save(self, session, step):
    self._note("after", step)
    return step == self._stop_at

  def end(self, *arguments):
    self._note("end", next(argument for argument in arguments if isinstance(argument, int)))


def test_the_order_of_hooks_and_saving_listeners(tmp_path):
  log = []
  programs.estimator(tmp_path, save_checkpoints_steps=2, **programs.fixed_loops(2)).train(
    programs.train_input,
    steps=3,
    hooks=[Recorder(log, "hook")],
    saving_listeners=[Recorder(log, "listener")],
  )
  assert log == [
    ("hook", "begin"),
    ("listener", "begin"),
    ("listener", "before", 0),
    ("listener", "after", 0),
    ("hook", "step", 2),
    ("listener", "before", 2),
    ("listener", "after", 2),
    ("hook", "step", 3),
    ("listener", "before", 3),
    ("listener", "after", 3),
    ("hook", "end", 3),
    ("listener", "end", 3),
  ]


def test_listeners_of_tensorflow(tmp_path):
  seen = []

  class Listener(tf.compat.v1.train.CheckpointSaverListener):
    def after_save(self, session, global_step_value):
      seen.append(global_step_value)

  programs.estimator(tmp_path).train(programs.train_input, steps=2, saving_listeners=[Listener()])
  assert seen == [0, 2]


def test_the_checkpoint_is_there_when_a_listener_is_told(tmp_path):
  estimator = programs.estimator(tmp_path, save_checkpoints_steps=2)
  seen = []

  class Listener(Recorder):
    def after_save(self, session, step):
      seen.append((step, estimator.latest_step()))

  estimator.train(programs.train_input, steps=4, saving_listeners=[Listener([], "")])
  assert seen == [(0, 0), (2, 2), (4, 4)]


def test_a_listener_ends_the_training(tmp_path):
  log = []
  estimator = programs.estimator(tmp_path, save_checkpoints_steps=2)
  estimator.train(
    programs.train_input,
    steps=10,
    saving_listeners=[Recorder(log, "first", stop_at=4), Recorder(log, "second")],
  )
  assert estimator.latest_step() == 4
  assert ("second", "after", 4) in log
  assert log[-1] == ("second", "end", 4)


def test_a_resumed_training_does_not_save_its_start_again(tmp_path):
  estimator = programs.estimator(tmp_path).train(programs.train_input, steps=2)
  log = []
  estimator.train(programs.train_input, steps=1, saving_listeners=[Recorder(log, "listener")])
  assert [entry[2] for entry in log if entry[1] == "after"] == [3]


def test_hooks_get_the_loss_and_the_estimator(tmp_path):
  seen = []
  estimator = programs.estimator(tmp_path)
  estimator.train(
    programs.train_input,
    steps=1,
    hooks=[lambda step, metrics, runner: seen.append((step, metrics["loss"], runner))],
  )
  _, y = programs.arrays(8)
  assert seen == [(1, pytest.approx(np.mean(y.astype(np.float64) ** 2), rel=1e-6), estimator)]


def test_hook_error_is_raised_and_the_next_training_works(tmp_path):
  def hook(step, metrics, estimator):
    raise ZeroDivisionError("mine")

  estimator = programs.estimator(tmp_path)
  with pytest.raises(ZeroDivisionError, match="mine"):
    estimator.train(programs.train_input, steps=2, hooks=[hook])
  assert estimator.latest_step() == 0
  estimator.train(programs.train_input, steps=2)
  assert estimator.latest_step() == 2


def bringing_hooks(log):
  def model_fn(features, labels, mode, params):
    spec = programs.line(features, labels, mode, params)
    for kind in ("training", "evaluation", "prediction"):
      setattr(
        spec,
        f"{kind}_hooks",
        [lambda step, metrics, estimator, kind=kind: log.append((mode, kind))],
      )
    return spec

  return model_fn


def test_models_hooks_of_a_mode_ignore_the_last_trace(tmp_path):
  """A spec's hooks are called in their mode, in whatever order the modes were traced."""
  log = []
  estimator = programs.estimator(tmp_path, bringing_hooks(log))
  estimator.trace("train", programs.train_input)
  estimator.trace("eval", programs.examples(8))
  estimator.trace("predict", programs.examples(8))
  for _ in range(2):
    estimator.train(programs.train_input, steps=1)
    estimator.evaluate(programs.examples(8))
    list(estimator.predict(programs.examples(8)))
  assert log == [("train", "training"), ("eval", "evaluation"), ("infer", "prediction")] * 2


# ------------------------------------------------------------- what goes wrong


def exploding(at, value=math.nan):
  """The line, whose loss is no number from a global step on."""

  def model_fn(features, labels, mode, params):
    step = tf.compat.v1.train.get_global_step()
    spec = programs.line(features, labels, mode, params)
    if mode == trainer.ModeKeys.TRAIN:
      spec.loss += tf.where(step >= at, value, 0.0)
    return spec

  return model_fn


@pytest.mark.parametrize(
  "loops, heard", [(1, [1, 2, 3, 4, 5, 6, 7]), (3, [3, 6]), (50, [])], ids=["1", "3", "50"]
)
def test_a_loss_that_is_nan_ends_the_training_at_its_step(loops, heard, tmp_path):
  """Step 7 is the eighth: in it, the step counter goes from 7 to 8. Hooks hear of none like it."""
  seen = []
  estimator = programs.estimator(
    tmp_path, exploding(7), save_checkpoints_steps=3, **programs.fixed_loops(loops)
  )
  with pytest.raises(
    errors.NonFiniteError,
    match=r"The loss became NaN at step 8\. .*The last "
    r"good checkpoint is .*model\.ckpt-(0|6);",
  ):
    estimator.train(
      programs.train_input, steps=20, hooks=[lambda step, metrics, _: seen.append(step)]
    )
  assert seen == heard
  assert estimator.latest_step() == (0 if loops == 50 else 6)
  assert all(np.isfinite(estimator.get_variable_value(name)).all() for name in ("w", "b"))


def test_an_infinite_loss(tmp_path):
  with pytest.raises(errors.NonFiniteError, match="became infinite at step 1"):
    programs.estimator(tmp_path, exploding(0, math.inf)).train(programs.train_input, steps=20)


def test_one_replica_of_several_is_enough(tmp_path):
  def model_fn(features, labels, mode, params):
    spec = programs.line(features, labels, mode, params)
    replica = tf.distribute.get_replica_context().replica_id_in_sync_group
    spec.loss += tf.where(tf.equal(replica, 1), math.nan, 0.0)
    return spec

  with pytest.raises(errors.NonFiniteError, match="NaN at step 1"):
    programs.estimator(tmp_path, model_fn, device="cpu:2").train(programs.train_input, steps=2)


def test_a_file_in_the_way_of_model_dir(tmp_path):
  (tmp_path / "model").write_text("a file")
  with pytest.raises(errors.OutputError, match=r"model.*--model_dir") as raised:
    programs.estimator(tmp_path / "model").train(programs.train_input, steps=1)
  assert isinstance(raised.value, OSError)
  assert (tmp_path / "model").read_text() == "a file"


def test_a_file_in_the_way_above_model_dir(tmp_path):
  (tmp_path / "out").write_text("a file")
  with pytest.raises(errors.OutputError, match="--model_dir"):
    programs.estimator(tmp_path / "out" / "model").train(programs.train_input, steps=1)


@pytest.mark.long  # tests/conformance/test_training.py resumes in the gate, to the same bits
def test_the_step_is_seen_by_the_optimizer(tmp_path):
  """A second training goes on with the optimizer's state, not with a new one."""

  def model_fn(features, labels, mode, params):
    spec = programs.line(features, labels, mode, params)
    if mode == trainer.ModeKeys.TRAIN:
      spec.train_op = trainer.minimize(keras.optimizers.Adam(0.1), spec.loss)
    return spec

  def run(name, *steps):
    for count in steps:
      estimator = programs.estimator(tmp_path / name, model_fn)
      estimator.train(lambda params: programs.train_input(params).take(1).repeat(), steps=count)
    return estimator.variables["w"].numpy()

  np.testing.assert_array_equal(run("once", 6), run("twice", 3, 3))


def test_numbers_of_numpy_are_numbers(tmp_path):
  estimator = programs.estimator(
    tmp_path, tpu_config=trainer.TPUConfig(iterations_per_loop=np.int64(2))
  )
  estimator.train(programs.train_input, steps=np.int32(3))
  assert estimator.latest_step() == 3


# ------------------------------------------------------- the last checkpoint


def fails_to_write(step, monkeypatch, times):
  """Lets the first `times` writes of a step's checkpoint fail."""
  original, left = commit.commit, [times]

  def commit_once(written, path):
    if path.endswith(f"-{step}") and left[0]:
      left[0] -= 1
      raise OSError(28, "No space left on device")
    original(written, path)

  monkeypatch.setattr(commit, "commit", commit_once)


@pytest.mark.parametrize("every", [2, 100])
def test_unwritable_last_checkpoint_ends_training_with_error(every, tmp_path, monkeypatch):
  fails_to_write(4, monkeypatch, times=2)
  estimator = programs.estimator(
    tmp_path, on_checkpoint_failure="warn", save_checkpoints_steps=every, **programs.fixed_loops(1)
  )
  saved = 2 if every == 2 else 0
  with pytest.raises(
    errors.OutputError, match=f"of step 4 .*space.*the training's last.*of step {saved}\\."
  ):
    estimator.train(programs.train_input, max_steps=4)
  assert estimator.latest_step() == saved


def test_a_last_checkpoint_that_fails_once_is_written_again(tmp_path, monkeypatch, caplog):
  fails_to_write(4, monkeypatch, times=1)
  estimator = programs.estimator(tmp_path, on_checkpoint_failure="warn", save_checkpoints_steps=2)
  estimator.train(programs.train_input, max_steps=4)
  assert estimator.latest_step() == 4
  assert (
    "The newest checkpoint is of step 2. Octet tries again at the next checkpoint." in caplog.text
  )


def test_a_checkpoint_on_the_way_that_fails_is_a_warning(tmp_path, monkeypatch):
  fails_to_write(2, monkeypatch, times=9)
  estimator = programs.estimator(tmp_path, on_checkpoint_failure="warn", save_checkpoints_steps=2)
  estimator.train(programs.train_input, max_steps=4)
  assert estimator.checkpoint_steps() == [0, 4]


# ---------------------------------------------------------- an end that is recorded


def test_a_restart_finds_that_the_input_had_ended(tmp_path, caplog):
  def run(**length):
    estimator = programs.estimator(tmp_path)
    with caplog.at_level("INFO", logger="absl"):
      estimator.train(programs.batches(5), ends_with_input=True, **length)
    return estimator.latest_step()

  assert run() == 5
  caplog.clear()
  assert run() == 5
  assert "Training ended: an earlier run exhausted the input at step 5" in (caplog.text)
  assert run(max_steps=8) == 8  # another length: the user wants more
  assert run(max_steps=20) == 10  # the rest of the second epoch
  assert run(max_steps=20) == 10
  assert run() == 10


def test_explicit_call_trains_on_from_the_start_of_its_input(tmp_path):
  programs.estimator(tmp_path).train(programs.batches(5), ends_with_input=True)
  estimator = programs.estimator(tmp_path)
  assert "input_ended" not in estimator.get_variable_names()
  assert estimator.train(programs.batches(5)).latest_step() == 10
  # Such a call may be made again and again: its end is not recorded.
  again = programs.estimator(tmp_path).train(programs.batches(5), ends_with_input=True)
  assert again.latest_step() == 15


def test_kill_between_last_step_and_its_record_adds_no_step(tmp_path, caplog):
  """The checkpoint of step 5 was due there, and does not know yet that no batch follows."""
  whole, cut = tmp_path / "whole", tmp_path / "cut"
  programs.estimator(whole).train(programs.train_input, max_steps=5)
  copied_checkpoint(whole, cut, 5)
  for _ in range(2):
    estimator = programs.estimator(cut)
    estimator.train(programs.batches(5), ends_with_input=True)
    assert estimator.latest_step() == 5
    assert estimator.get_variable_value("input_ended") == 0
