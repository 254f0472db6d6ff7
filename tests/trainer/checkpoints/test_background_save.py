"""A save in a thread of its own: one at a time, and no error is lost."""

import threading

import pytest
import tensorflow as tf

from trainer import errors
from trainer.checkpoints import background_save

FULL = tf.errors.ResourceExhaustedError(None, None, "out/x: No space left on device\nmore")


def made(on_failure="raise"):
  return background_save.BackgroundSave(
    "out/x (--model_dir)", on_failure, lambda: "the newest checkpoint is of step 5"
  )


def fail(error=FULL):
  raise error


def test_saves_run_one_after_the_other():
  saves, order, first_may_end = made(), [], threading.Event()

  def first():
    first_may_end.wait(60)
    order.append(1)

  saves.start(1, first)
  threading.Timer(0.1, first_may_end.set).start()
  saves.start(2, lambda: order.append(2))
  saves.wait()
  assert order == [1, 2]


@pytest.mark.parametrize("next_call", ["start", "wait"])
def test_a_failed_save_raises_at_the_next_call(next_call):
  saves = made()
  saves.start(10, fail)
  with pytest.raises(errors.OutputError) as caught:
    saves.wait() if next_call == "wait" else saves.start(20, lambda: None)
  assert str(caught.value) == (
    "Cannot write the checkpoint of step 10 to out/x (--model_dir): out/x: No space left on device"
  )
  saves.wait()  # the error comes once


def test_another_thread_leaves_the_error_to_the_training():
  saves = made()
  saves.start(10, fail)
  other = threading.Thread(target=saves.wait)
  other.start()
  other.join()
  with pytest.raises(errors.OutputError):
    saves.wait()


def test_a_warning_ends_with_the_next_good_save(caplog):
  saves = made("warn")
  saves.start(10, fail)
  saves.wait()
  assert saves.has_failed
  assert "The newest checkpoint is of step 5. Octet tries again" in caplog.text
  saves.start(20, lambda: None)
  saves.wait(is_last=True)
  assert not saves.has_failed


def test_the_last_save_of_a_training_must_not_fail():
  saves = made("warn")
  saves.start(10, fail)
  with pytest.raises(errors.OutputError, match="the training's last checkpoint; the newest check"):
    saves.wait(is_last=True)


def test_errors_keep_their_class_and_bugs_their_traceback():
  for error in (errors.StorageError("The store is away."), ZeroDivisionError("a bug")):
    saves = made()
    saves.start(10, lambda error=error: fail(error))
    with pytest.raises(type(error), match=str(error)):
      saves.wait()
