"""Returns to a checkpoint: when, how often, and with which data.

`test_non_finite` has whole trainings.
"""

import types

import pytest
import tensorflow as tf

from trainer import errors, run_config
from trainer.loop import non_finite, rollback


class Values:
  """The values of a model with checkpoints."""

  def __init__(self, latest="/run/model.ckpt-100"):
    self.newest, self.loaded = latest, []

  def latest(self):
    return self.newest

  def load(self, source):
    self.loaded.append(source)


def make(policy="rollback", values=None, **parts):
  settings = dict(
    config=run_config.RunConfig(on_non_finite=policy),
    model_dir="/run",
    # The search for the cause needs real steps; XLA devices cannot make it.
    device=types.SimpleNamespace(runs_by_pjrt=True),
    program=types.SimpleNamespace(global_step=tf.Variable(100, dtype=tf.int64)),
    variables=None,
    values=values or Values(),
    position=types.SimpleNamespace(examples=8 * 150),
    inputs=None,
    batch_size=8,
  )
  return rollback.Rollback(**{**settings, **parts})


def fault(step=137):
  return non_finite.NonFinite(step, 100, "NaN", ())


def test_a_return_loads_the_checkpoint_and_gives_its_step(caplog):
  made = make()
  assert made.handle(fault(), None) == 100
  assert made.values.loaded == ["/run/model.ckpt-100"]
  [text] = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
  assert "NaN at step 137" in text
  assert "Going back to step 100 and continuing with the next examples" in text


@pytest.mark.parametrize(
  ("policy", "latest", "message"),
  [
    ("stop", "/run/model.ckpt-100", r"last good checkpoint is /run/model\.ckpt-100"),
    ("rollback", None, "There is no checkpoint yet"),
  ],
)
def test_the_training_ends_with_nothing_loaded(policy, latest, message):
  made = make(policy, Values(latest))
  with pytest.raises(errors.NonFiniteError, match=message):
    made.handle(fault(), None)
  assert made.values.loaded == []


def test_each_checkpoint_has_its_own_count():
  made = make()
  for _ in range(non_finite.ROLLBACKS):
    made.handle(fault(), None)
  made.values.newest = "/run/model.ckpt-120"
  made.handle(fault(), None)
  made.values.newest = "/run/model.ckpt-100"
  with pytest.raises(errors.NonFiniteError, match=f"{non_finite.ROLLBACKS} times without success"):
    made.handle(fault(), None)


def test_steps_are_repeated_with_the_data_after_the_last_return():
  starts = []

  class Inputs:
    def call_and_trace(self, kind, input_fn, start):
      starts.append(start)
      traced = types.SimpleNamespace(run=lambda iterator, steps: ran.append(steps))
      return types.SimpleNamespace(traced=traced, iterator=None)

  class Position:
    examples = 8 * 150

    def of(self, checkpoint, input_fn, batch_size):
      return 8 * 100

  ran = []
  values = Values()
  values.invalidate = lambda: None
  made = make(values=values, position=Position(), inputs=Inputs())
  made._train_again("/run/model.ckpt-100", None, 136)
  made.handle(fault(), None)
  made._train_again("/run/model.ckpt-100", None, 100)
  assert starts == [8 * 100, 8 * 150]
  assert ran == [36]
