"""The input of a device loop: who gets its dataset, and the batches of a step."""

import types

import pytest
import tensorflow as tf

from trainer.programs import loop_input
from trainer.settings.kinds import Kind


def made(kind=Kind.TRAIN, start=8, traced=None):
  dataset = tf.data.Dataset.range(5)
  return loop_input.LoopInput(
    kind, len, start, dataset, iter(dataset), 5, False, traced or types.SimpleNamespace()
  )


def test_a_dataset_is_handed_over_once():
  given = made()
  taken = given.hand_over(Kind.TRAIN, 8)
  assert int(next(taken.iterator)) == 0
  assert (given.dataset, given.iterator) == (None, None)
  assert given.hand_over(Kind.TRAIN, 8) is None
  assert taken.traced is given.traced


@pytest.mark.parametrize(("kind", "start"), [(Kind.EVAL, 8), (Kind.TRAIN, 0)])
def test_another_run_makes_its_own(kind, start):
  given = made()
  assert given.hand_over(kind, start) is None
  assert given.iterator is not None


class Feeder:
  def __init__(self, dataset):
    self.dataset, self.asked = dataset, []

  def for_loop(self, kind, input_fn, start):
    self.asked.append((kind, input_fn, start))
    return self.dataset


class Loops:
  """Traces that read nothing."""

  def __init__(self):
    self.traced = []

  def trace_training(self, spec, is_endless):
    self.traced.append(("train", is_endless))
    return types.SimpleNamespace(read=iter)

  def trace_groups(self, kind, spec, elements, name):
    self.traced.append((kind, elements, name))
    return types.SimpleNamespace(read=iter)


RANGE = tf.data.Dataset.range(5)


@pytest.mark.parametrize(
  ("dataset", "elements", "is_endless"),
  [
    (RANGE, 5, False),
    (RANGE.repeat(), None, True),
    (RANGE.filter(lambda x: x > 1), None, False),
    (RANGE.take(0), 0, False),
  ],
)
def test_the_trace_knows_the_length_of_the_input(dataset, elements, is_endless):
  inputs = loop_input.LoopInputs(Feeder(dataset), Loops())
  found = inputs.call_and_trace(Kind.TRAIN, len, start=3)
  assert (found.elements, found.is_endless, found.start) == (elements, is_endless, 3)
  inputs.call_and_trace(Kind.EVAL, found, name="test")
  assert inputs.loops.traced == [("train", is_endless), (Kind.EVAL, elements, "test")]
  assert inputs.feeder.asked == [(Kind.TRAIN, len, 3), (Kind.EVAL, len, 0)]


def test_a_traced_input_is_used_instead_of_its_input_fn():
  inputs = loop_input.LoopInputs(Feeder(RANGE), Loops())
  traced = inputs.call_and_trace(Kind.TRAIN, len, start=3)
  assert inputs.call_and_trace(Kind.TRAIN, traced, start=3).traced is traced.traced
  assert len(inputs.feeder.asked) == 1
  inputs.call_and_trace(Kind.TRAIN, traced, start=3)
  assert len(inputs.feeder.asked) == 2
