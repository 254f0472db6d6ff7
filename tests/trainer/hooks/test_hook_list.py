"""The hooks of one call: each is called, in order, whatever the others say."""

import contextlib

import pytest

from trainer import spec
from trainer.hooks import hook_list


class Recorder:
  """A hook with all that a hook may have; it says to stop where `stops` names the method."""

  def __init__(self, name, calls, stops=()):
    self._name, self._calls, self._stops = name, calls, stops

  def _note(self, method, *arguments):
    self._calls.append((self._name, method, *arguments))
    return method in self._stops

  def begin(self, estimator):
    return self._note("begin", estimator)

  def __call__(self, step, metrics, estimator):
    return self._note("call", step, metrics, estimator)

  def end(self, step, estimator):
    return self._note("end", step, estimator)

  def next_step(self, step):
    return step + 10


def test_every_hook_is_called_in_order():
  calls = []
  hooks = hook_list.HookList([Recorder("a", calls), Recorder("b", calls)], "estimator")
  assert (hooks.begin(), hooks.call(3, {"loss": 1.0}), hooks.end(3)) == (False, False, None)
  assert calls == [
    (name, *rest)
    for rest in (
      ("begin", "estimator"),
      ("call", 3, {"loss": 1.0}, "estimator"),
      ("end", 3, "estimator"),
    )
    for name in ("a", "b")
  ]


@pytest.mark.parametrize("method", ["begin", "call"])
def test_one_hook_stops_the_training_and_the_others_still_hear(method):
  calls = []
  hooks = hook_list.HookList(
    [Recorder("a", calls, stops=[method]), Recorder("b", calls)], "estimator"
  )
  assert hooks.begin() == (method == "begin")
  assert hooks.call(1, {}) == (method == "call")
  assert len(calls) == 4


def test_a_function_is_a_hook():
  seen = []
  hooks = hook_list.HookList([lambda step, metrics, estimator: seen.append(step)], None)
  hooks.begin()
  hooks.call(5, {})
  hooks.end(5)
  assert seen == [5]
  assert hooks.next_steps == ()


def test_those_that_want_to_be_called_at_a_step_say_so():
  (next_step,) = hook_list.HookList([print, Recorder("a", [])], None).next_steps
  assert next_step(3) == 13


def test_each_call_is_a_stage_with_the_name_of_the_hook():
  stages = []

  @contextlib.contextmanager
  def stage(name):
    stages.append(name)
    yield

  def my_hook(step, metrics, estimator):
    pass

  hook_list.HookList([my_hook], None, stage).call(1, {})
  assert stages == [f"hook {spec.name_of(my_hook)}"]
