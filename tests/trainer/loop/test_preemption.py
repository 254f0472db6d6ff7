"""SIGTERM and Ctrl-C: saved at the end of the loop, left with what tells which of the two it
was.
"""

import contextlib
import itertools
import logging
import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest
import tensorflow as tf

import trainer
from tests import long
from tests.trainer import programs
from trainer.config import files
from trainer.loop import preemption
from trainer.outputs import saved_model, verification
from trainer.reporting import evaluations_file

SIGNALS = [signal.SIGTERM, signal.SIGINT]
BOTH = pytest.mark.parametrize("number", SIGNALS, ids=["SIGTERM", "SIGINT"])


def send(number, times=1):
  for _ in range(times):
    os.kill(os.getpid(), number)


def sending(number, at, times=1):
  """A hook that sends this process a signal after a step."""

  def hook(step, metrics, estimator):
    if step == at:
      send(number, times)

  return hook


def sending_and_hearing(number, at):
  """As `sending`; the hook goes on when the thread that hears of signals has said what follows,
  which on a busy machine may be later than the save.
  """
  said = threading.Event()

  class Listener(logging.Handler):
    def emit(self, record):
      said.set()

  def hook(step, metrics, estimator):
    if step != at:
      return
    logger, listener = logging.getLogger("absl"), Listener(logging.WARNING)
    logger.addHandler(listener)
    try:
      send(number)
      assert said.wait(60)
    finally:
      logger.removeHandler(listener)

  return hook


@contextlib.contextmanager
def left(number, message=""):
  """Inside, the program is left as after the signal."""
  with pytest.raises(SystemExit if number == signal.SIGTERM else KeyboardInterrupt) as raised:
    yield
  if number == signal.SIGTERM:
    assert raised.value.code == preemption.EXIT_CODE == 75
  else:
    assert message in str(raised.value)


# --------------------------------------------------------------------- the first


@BOTH
def test_the_run_saves_and_goes_on_to_the_bit(number, tmp_path, caplog):
  cut = programs.estimator(tmp_path / "cut", **programs.fixed_loops(1))
  with left(
    number, f"saved at step 3 in {tmp_path / 'cut'}; the same command, or call, resumes from there"
  ):
    cut.train(programs.train_input, steps=8, hooks=[sending_and_hearing(number, at=3)])
  assert "saving at the end of this device loop" in caplog.text
  assert "A second one ends" in caplog.text
  assert cut.latest_step() == 3
  resumed = programs.estimator(tmp_path / "cut").train(programs.train_input, max_steps=8)
  whole = programs.estimator(tmp_path / "whole").train(programs.train_input, steps=8)
  np.testing.assert_array_equal(resumed.variables["w"].numpy(), whole.variables["w"].numpy())


def test_the_same_estimator_goes_on_after_ctrl_c(tmp_path):
  """As in a notebook."""
  estimator = programs.estimator(tmp_path / "cut", **programs.fixed_loops(1))
  with left(signal.SIGINT):
    estimator.train(programs.train_input, steps=8, hooks=[sending(signal.SIGINT, at=3)])
  estimator.train(programs.train_input, max_steps=8)
  whole = programs.estimator(tmp_path / "whole").train(programs.train_input, steps=8)
  np.testing.assert_array_equal(estimator.variables["w"].numpy(), whole.variables["w"].numpy())


@BOTH
def test_what_was_there_before_is_back_afterwards(number, tmp_path):
  before = signal.getsignal(number)
  programs.estimator(tmp_path).train(programs.train_input, steps=1)
  assert signal.getsignal(number) is before
  assert signal.set_wakeup_fd(-1) == -1
  assert "signals" not in {thread.name for thread in threading.enumerate()}


def blocking_while(number):
  """An eval input_fn that sends a signal when it is read."""

  def input_fn(params):
    def rows():
      x, y = programs.arrays(8)
      send(number)
      yield {"x": x}, y

    spec = {"x": tf.TensorSpec([8, 3])}, tf.TensorSpec([8])
    return tf.data.Dataset.from_generator(rows, output_signature=spec)

  return input_fn


@pytest.mark.parametrize(
  "number, stage",
  long.except_for(
    [(signal.SIGTERM, "graph"), (signal.SIGINT, "check")],
    itertools.product([signal.SIGTERM, signal.SIGINT], ["graph", "check"]),
  ),
)
def test_an_export_in_a_training_ends_at_once_and_leaves_nothing(
  number, stage, tmp_path, monkeypatch
):
  """All is saved; the same command evaluates and exports again."""
  owner, name = {"graph": (saved_model, "trace"), "check": (verification, "verify")}[stage]
  original, folders = getattr(owner, name), []
  exports = tmp_path / "model" / "export" / "latest"

  def interrupted(*arguments):
    folders.append(os.listdir(exports) if exports.exists() else [])
    send(number)
    return original(*arguments)

  def train():
    trainer.train_and_evaluate(
      programs.estimator(tmp_path / "model", save_checkpoints_steps=2),
      trainer.TrainSpec(programs.train_input, max_steps=4),
      trainer.EvalSpec(programs.examples(16), exporters=[trainer.LatestExporter()]),
    )

  with monkeypatch.context() as patch, left(number, "saved at step 2"):
    patch.setattr(owner, name, interrupted)
    train()
  assert any(file.startswith(".writing-") for file in folders[0]) == (stage == "check")
  assert not exports.exists() or os.listdir(exports) == []
  train()
  assert len([folder for folder in os.listdir(exports) if folder.isdigit()]) == 2


@pytest.mark.parametrize("number", long.except_for([signal.SIGINT], SIGNALS))
def test_an_evaluation_in_a_training_is_left_as_it_is(number, tmp_path, caplog):
  """All is saved; the evaluation is done again by the same command."""
  estimator = programs.estimator(tmp_path, save_checkpoints_steps=2)
  with left(number, "saved at step 2"):
    trainer.train_and_evaluate(
      estimator,
      trainer.TrainSpec(programs.train_input, max_steps=6),
      trainer.EvalSpec(blocking_while(number)),
    )
  assert "ending here; the checkpoint of step 2 is on disk" in caplog.text
  assert estimator.latest_step() == 2
  assert set(evaluations_file.read(str(tmp_path), "")) == set()


@BOTH
def test_checkpoint_on_signal_reaches_listeners_not_evaluation(number, tmp_path):
  told = []

  class Listener(tf.compat.v1.train.CheckpointSaverListener):
    def after_save(self, session, step):
      told.append(step)

  train_spec = trainer.TrainSpec(
    programs.train_input, max_steps=8, hooks=[sending(number, at=3)], saving_listeners=[Listener()]
  )
  with left(number, "saved at step 3"):
    trainer.train_and_evaluate(
      programs.estimator(tmp_path, **programs.fixed_loops(1)),
      train_spec,
      trainer.EvalSpec(lambda params: pytest.fail("evaluated")),
    )
  assert told == [0, 3]


@BOTH
def test_before_the_first_step_it_leaves_what_is_saved(number, tmp_path):
  class Listener(tf.compat.v1.train.CheckpointSaverListener):
    def after_save(self, session, step):
      send(number)

  def hook(step, metrics, estimator):
    pytest.fail("a step was done")

  with left(number, "saved at step 0"):
    programs.estimator(tmp_path).train(
      programs.train_input, steps=8, hooks=[hook], saving_listeners=[Listener()]
    )


@BOTH
def test_at_the_end_hooks_come_to_their_end(number, tmp_path):
  ended = []

  class Hook:
    def __init__(self, name):
      self.name = name

    def __call__(self, step, metrics, estimator):
      pass

    def end(self, step, estimator):
      ended.append(self.name)
      send(number)

  with left(number, "saved at step 2"):
    programs.estimator(tmp_path).train(programs.train_input, steps=2, hooks=[Hook("a")])
  assert ended == ["a"]


@pytest.mark.parametrize("number", long.except_for([signal.SIGTERM], SIGNALS))
def test_an_evaluation_after_the_end_of_the_data_is_left(number, tmp_path):
  """The last loop finds no data and does no step; all is saved."""
  ended = []

  class Hook:
    def __call__(self, step, metrics, estimator):
      pass

    def end(self, step, estimator):
      send(number)
      ended.append("begins")
      estimator.evaluate(programs.examples(16))
      ended.append("evaluated")

  estimator = programs.estimator(tmp_path, save_checkpoints_steps=2)
  with left(number, "saved at step 4"):
    estimator.train(programs.batches(4), hooks=[Hook()])
  assert ended == ["begins"]


def test_while_the_step_is_built_there_is_nothing_to_save(tmp_path):
  def input_fn(params):
    send(signal.SIGINT)
    return programs.train_input(params)

  with left(signal.SIGINT, "before the first step there was nothing to save"):
    programs.estimator(tmp_path / "model").train(input_fn, steps=2)
  assert not (tmp_path / "model").exists()


def test_signal_after_last_step_reports_the_evaluation_left(tmp_path):
  estimator = programs.estimator(tmp_path).train(programs.train_input, max_steps=2)
  with left(signal.SIGINT, "in the last evaluation, after the training's last checkpoint"):
    trainer.train_and_evaluate(
      estimator,
      trainer.TrainSpec(programs.train_input, max_steps=2),
      trainer.EvalSpec(blocking_while(signal.SIGINT)),
    )


def test_a_hooks_own_interrupt_is_its_own(tmp_path):
  def hook(step, metrics, estimator):
    raise KeyboardInterrupt

  with pytest.raises(KeyboardInterrupt) as raised:
    programs.estimator(tmp_path).train(programs.train_input, steps=2, hooks=[hook])
  assert str(raised.value) == ""


def test_unwritten_checkpoint_is_not_reported_as_saved(tmp_path):
  def hook(step, metrics, estimator):
    if step == 3:
      (tmp_path / "model.ckpt-3.index").mkdir()  # where the file should go
      send(signal.SIGINT)

  estimator = programs.estimator(tmp_path, on_checkpoint_failure="warn", **programs.fixed_loops(1))
  with left(signal.SIGINT, "saved at step 0"):
    estimator.train(programs.train_input, steps=8, hooks=[hook])


# ------------------------------------------------------------------- the second


def test_second_ctrl_c_in_a_programs_process_raises_at_once(tmp_path, monkeypatch):
  monkeypatch.setattr(preemption, "_ONE_PRESS_SECONDS", 0)
  estimator = programs.estimator(tmp_path, **programs.fixed_loops(1))
  with left(signal.SIGINT, "a second time: the process ended at once"):
    estimator.train(programs.train_input, steps=8, hooks=[sending(signal.SIGINT, at=3, times=2)])
  assert estimator.latest_step() == 0


def test_what_a_terminal_sends_twice_is_one_press(tmp_path):
  now = [0.0]
  presses = preemption.Presses(clock=lambda: now[0])
  counts = []
  for time in (0.0, 0.1, 1.0, 1.2, 5.0):
    now[0] = time
    counts.append(presses.add())
  assert counts == [1, 0, 2, 0, 3]
  estimator = programs.estimator(tmp_path, **programs.fixed_loops(1))
  watch = preemption.Watch
  with pytest.MonkeyPatch.context() as patch, left(signal.SIGINT, "saved at step 3"):
    patch.setattr(preemption, "Watch", lambda leave: watch(leave, clock=lambda: 0.0))
    estimator.train(programs.train_input, steps=8, hooks=[sending(signal.SIGINT, at=3, times=2)])


PROGRAM = """
import sys, threading
from trainer.cli import command
from trainer.loop import preemption

what, model_dir = sys.argv.pop(1), sys.argv.pop(1)
blocks_at, loop = int(sys.argv.pop(1)), int(sys.argv.pop(1))
preemption._ONE_PRESS_SECONDS = 0

def main(argv):
  with preemption.own_process_scope():
    import tensorflow as tf
    import trainer
    from tests.trainer import programs

    def blocking(params):
      def rows():
        x, y = programs.arrays(8)
        for batch in range(100):
          if batch == blocks_at:
            print("blocked", flush=True)
            threading.Event().wait()
          yield {"x": x}, y
      spec = {"x": tf.TensorSpec([8, 3])}, tf.TensorSpec([8])
      return tf.data.Dataset.from_generator(rows, output_signature=spec)

    settings = programs.fixed_loops(loop) if loop else {}
    estimator = programs.estimator(model_dir, **settings)
    if what == "export":
      def receive():
        print("blocked", flush=True)
        threading.Event().wait()
      from trainer.outputs import exporters
      train_spec = trainer.TrainSpec(programs.train_input, max_steps=40)
      exports = [exporters.LatestExporter(serving_input_receiver_fn=receive)]
      trainer.train_and_evaluate(
        programs.estimator(model_dir, save_checkpoints_steps=2), train_spec,
        trainer.EvalSpec(programs.examples(8), exporters=exports),
      )
    if what == "evaluate":
      estimator.train(programs.train_input, steps=1)
      estimator.evaluate(blocking)
    estimator.train(blocking, steps=90)

command.run(main)
"""

SAVING = "saving at the end of this device loop"
COMMANDS = {
  # what, signals, where it blocks, steps a loop, what it says after the first, exit code, what it
  # says in the end
  "in a loop": ("train", signal.SIGINT, 5, 50, SAVING, 130, "interrupted again: ended at once"),
  "in the first loop of one step": (
    "train",
    signal.SIGINT,
    0,
    0,
    None,
    130,
    "interrupted: before the first step there was nothing to save",
  ),
  "SIGTERM in a loop": (
    "train",
    signal.SIGTERM,
    5,
    50,
    SAVING,
    143,
    "SIGTERM again: ended at once.",
  ),
  "in an export of a training": (
    "export",
    signal.SIGINT,
    0,
    0,
    None,
    130,
    "interrupted: saved at step 2",
  ),
  "in an evaluation": (
    "evaluate",
    signal.SIGINT,
    0,
    0,
    "Ctrl-C: ending.",
    130,
    "interrupted again: ended at once",
  ),
}


@pytest.mark.long
@pytest.mark.parametrize("case", COMMANDS)
def test_a_command_in_a_loop_without_end_hears_and_ends_at_once(case, tmp_path):
  what, number, blocks_at, loop, after_first, code, said = COMMANDS[case]
  command = [sys.executable, "-c", PROGRAM, what, str(tmp_path), str(blocks_at), str(loop)]
  environment = dict(os.environ, PYTHONPATH=str(files.ROOT), TF_CPP_MIN_LOG_LEVEL="3")
  with subprocess.Popen(
    command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
  ) as process:
    try:
      assert process.stdout.readline() == "blocked\n"
      process.send_signal(number)
      if after_first:
        assert any(after_first in line for line in process.stderr)
        process.send_signal(number)
      assert process.wait(timeout=60) == code
    finally:
      process.kill()
    assert said in process.stderr.read()


def test_a_second_sigterm_ends_the_process_at_once(monkeypatch):
  ended = []
  monkeypatch.setattr(preemption.os, "_exit", ended.append)
  watch = preemption.Watch()
  for _ in range(2):
    watch._hear(signal.SIGTERM)
  assert ended == [128 + signal.SIGTERM]


# --------------------------------------------------------------- who hears what


def test_what_several_workers_are_asked_for():
  sigterm, ctrl_c = preemption.Watch(), preemption.Watch()
  assert preemption.Watch().request == 0
  sigterm._on_signal(signal.SIGTERM, None)
  ctrl_c._on_signal(signal.SIGINT, None)
  with left(signal.SIGTERM):
    preemption.leave(8 * sigterm.request, 5, "out")
  with left(signal.SIGINT, "saved at step 5 in out"):
    preemption.leave(7 * sigterm.request + ctrl_c.request, 5, "out")


def test_ctrl_c_is_left_to_a_programs_own_handler(tmp_path):
  heard = []
  before = signal.signal(signal.SIGINT, lambda *arguments: heard.append(arguments[0]))
  try:
    estimator = programs.estimator(tmp_path, **programs.fixed_loops(1))
    estimator.train(programs.train_input, steps=4, hooks=[sending(signal.SIGINT, at=2)])
  finally:
    signal.signal(signal.SIGINT, before)
  assert heard == [signal.SIGINT]
  assert estimator.latest_step() == 4


def test_who_heard_of_signals_before_hears_of_them_still(tmp_path):
  reader, writer = os.pipe()
  for end in (reader, writer):
    os.set_blocking(end, False)
  before = signal.set_wakeup_fd(writer)
  try:
    with left(signal.SIGTERM):
      programs.estimator(tmp_path, **programs.fixed_loops(1)).train(
        programs.train_input, steps=4, hooks=[sending(signal.SIGTERM, at=2)]
      )
  finally:
    assert signal.set_wakeup_fd(before) == writer
  assert os.read(reader, 9) == bytes([signal.SIGTERM])
  os.close(reader)
  os.close(writer)


def test_a_training_in_another_thread_is_not_asked(tmp_path):
  estimator = programs.estimator(tmp_path)
  thread = threading.Thread(
    target=estimator.train, args=(programs.train_input,), kwargs={"steps": 2}
  )
  thread.start()
  thread.join()
  assert estimator.latest_step() == 2


def test_a_fork_answers_for_itself(tmp_path):
  """A worker process that is made in a training ends at SIGTERM, and its Ctrl-C is not its
  parent's.
  """
  codes = []

  def hook(step, metrics, estimator):
    ours, theirs = os.pipe()
    child = os.fork()
    if not child:
      is_free = (
        signal.set_wakeup_fd(-1) == -1
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
      )
      os.write(theirs, b"y" if is_free else b"n")
      signal.pause()
      os._exit(0)
    assert os.read(ours, 1) == b"y"
    os.kill(child, signal.SIGTERM)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

  estimator = programs.estimator(tmp_path, **programs.fixed_loops(1))
  estimator.train(programs.train_input, steps=1, hooks=[hook])
  assert codes == [-signal.SIGTERM]
