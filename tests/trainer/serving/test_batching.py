"""Requests that wait together are one call, and each gets its own rows."""

import asyncio
import threading

import numpy as np
import pytest

from trainer.outputs import engines
from trainer.serving import batching


class Doubling(engines.Engine):
  """Gives twice its feature; the first call waits until it is told to go on."""

  name = "doubling"

  def __init__(self):
    self.go_on = threading.Event()
    self.begun = threading.Event()
    self.sizes = []

  def predict_batch(self, features):
    self.sizes.append(len(features["x"]))
    self.begun.set()
    assert self.go_on.wait(30)
    if (features["x"] < 0).any():
      raise ValueError("below zero")
    return {"y": 2 * features["x"]}


@pytest.fixture
def engine():
  return Doubling()


def batcher(**settings):
  return batching.Batcher(**settings)


async def gathered(made, engine, values):
  """The results, or errors, of requests of which all but the first come while the model is busy."""
  tasks = [asyncio.create_task(made.run(engine, {"x": np.array(value)})) for value in values[:1]]
  await asyncio.sleep(0)
  await asyncio.to_thread(engine.begun.wait, 30)
  for value in values[1:]:
    tasks.append(asyncio.create_task(made.run(engine, {"x": np.array(value)})))
  await asyncio.sleep(0)  # in which they all are handed in
  engine.go_on.set()
  return await asyncio.gather(*tasks, return_exceptions=True)


def test_those_that_wait_are_one_call(engine):
  observed = []
  made = batcher(max_rows=5, observe=observed.append)
  found = asyncio.run(gathered(made, engine, [[1], [2, 3], [4], [5, 6], [7], [1] * 9]))
  made.close()
  assert [result["y"].tolist() for result in found] == [[2], [4, 6], [8], [10, 12], [14], [2] * 9]
  assert engine.sizes == [1, 5, 1, 9]  # five rows at most, but for one that is larger by itself
  assert observed == engine.sizes


def test_an_error_is_that_of_its_request_alone(engine):
  made = batcher()
  found = asyncio.run(gathered(made, engine, [[1], [2], [-1], [3]]))
  assert [result["y"].tolist() for result in found if isinstance(result, dict)] == [[2], [4], [6]]
  assert isinstance(found[2], ValueError)
  again = asyncio.run(gathered(made, engine, [[5]]))  # the thread lives on
  assert again[0]["y"].tolist() == [10]
  made.close()


def test_engines_are_not_mixed(engine):
  other = Doubling()
  other.go_on.set()
  made = batcher()

  async def ask():
    first = asyncio.create_task(made.run(engine, {"x": np.array([1])}))
    await asyncio.sleep(0)
    await asyncio.to_thread(engine.begun.wait, 30)
    rest = [asyncio.create_task(made.run(one, {"x": np.array([2])})) for one in (engine, other)]
    await asyncio.sleep(0)
    engine.go_on.set()
    return await asyncio.gather(first, *rest)

  found = asyncio.run(ask())
  made.close()
  assert [result["y"].tolist() for result in found] == [[2], [4], [4]]
  assert (engine.sizes, other.sizes) == ([1, 1], [1])


def test_too_many_that_wait_are_refused(engine):
  made = batcher(max_waiting_rows=3)
  found = asyncio.run(gathered(made, engine, [[1], [1, 1], [1], [1]]))
  made.close()
  assert [type(result) for result in found] == [dict, dict, dict, batching.BusyError]


def test_a_request_whose_client_has_gone_is_not_answered(engine):
  made = batcher()

  async def ask():
    first = asyncio.create_task(made.run(engine, {"x": np.array([1])}))
    await asyncio.sleep(0)
    await asyncio.to_thread(engine.begun.wait, 30)
    gone, last = (
      asyncio.create_task(made.run(engine, {"x": np.array([value])})) for value in (2, 3)
    )
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.gather(gone, return_exceptions=True)
    engine.go_on.set()
    return await asyncio.gather(first, last)

  assert [found["y"].tolist() for found in asyncio.run(ask())] == [[2], [6]]
  made.close()
  assert engine.sizes == [1, 1]
