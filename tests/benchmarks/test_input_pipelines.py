"""The comparison of input pipelines: both sides read their batches in turns."""

import pytest

from benchmarks import input_pipelines


class Turns:
  """Two turns."""

  def __init__(self):
    self.left = 2

  def take(self):
    self.left -= 1
    return self.left >= 0


@pytest.mark.parametrize("side", ["octet", "bare"])
def test_a_side_reads_its_batches(side, monkeypatch):
  title, make, _ = input_pipelines.CASES["digits"]
  monkeypatch.setitem(input_pipelines.CASES, "digits", (title, make, 3))
  turns = Turns()
  input_pipelines.read(turns, "digits", None, side)
  assert turns.left == -1
