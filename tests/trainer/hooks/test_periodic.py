"""What is done when: at multiples, after seconds, at certain steps, at the end."""

import pytest

from tests.trainer import programs
from trainer import errors
from trainer.hooks.periodic import Periodic


def called_at(model_dir, max_steps=25, **when):
  steps = []
  hook = Periodic(lambda step, metrics, estimator: steps.append(step), **when)
  programs.estimator(model_dir).train(programs.train_input, hooks=[hook], max_steps=max_steps)
  return steps


@pytest.mark.parametrize(
  "when, steps",
  [
    ({"steps": 10}, [10, 20]),
    ({"at": [3, 17, 99]}, [3, 17]),
    ({"at_end": True}, [25]),
    ({"steps": 10, "at": [7], "at_end": True}, [7, 10, 20, 25]),
  ],
)
def test_loops_end_where_it_is_time(when, steps, tmp_path):
  assert called_at(tmp_path, **when) == steps


def test_a_resumed_training_goes_on_counting(tmp_path):
  assert called_at(tmp_path, 12, steps=10, at=[11]) == [10, 11]
  assert called_at(tmp_path, 25, steps=10, at=[11, 13]) == [13, 20]


def test_seconds(tmp_path):
  now = [0.0]

  def clock():
    now[0] += 1
    return now[0]

  assert called_at(tmp_path, seconds=1.5, clock=clock)


def test_it_can_end_the_training(tmp_path):
  estimator = programs.estimator(tmp_path)
  estimator.train(programs.train_input, hooks=[Periodic(lambda *_: True, at=[4])], max_steps=25)
  assert estimator.latest_step() == 4


@pytest.mark.parametrize(
  "arguments, message",
  [((3,), "expected a function"), ((print,), "has no time to call its function")],
)
def test_values_that_cannot_work(arguments, message):
  with pytest.raises(errors.SettingError, match=message):
    Periodic(*arguments)
