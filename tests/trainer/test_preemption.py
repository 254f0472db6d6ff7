"""SIGTERM: saved at the end of the loop, left with the code that means "start me again"."""

import os
import signal

import numpy as np
import pytest

from tests.trainer import programs
from trainer import preemption


def test_the_run_saves_and_goes_on_to_the_bit(tmp_path):
  def terminate(step, metrics, estimator):
    if step == 3:
      os.kill(os.getpid(), signal.SIGTERM)

  cut = programs.estimator(tmp_path / "cut", **programs.fixed_loops(1))
  with pytest.raises(SystemExit) as raised:
    cut.train(programs.train_input, steps=8, hooks=[terminate])
  assert raised.value.code == preemption.EXIT_CODE == 75
  assert cut.latest_step() == 3
  resumed = programs.estimator(tmp_path / "cut").train(programs.train_input, max_steps=8)
  whole = programs.estimator(tmp_path / "whole").train(programs.train_input, steps=8)
  np.testing.assert_array_equal(resumed.variables["w"].numpy(), whole.variables["w"].numpy())


def test_the_handler_of_before_is_back_afterwards(tmp_path):
  before = signal.getsignal(signal.SIGTERM)
  programs.estimator(tmp_path).train(programs.train_input, steps=1)
  assert signal.getsignal(signal.SIGTERM) is before


def test_a_second_signal_ends_the_process_at_once(monkeypatch):
  left = []
  monkeypatch.setattr(preemption.os, "_exit", left.append)
  watch = preemption.Watch()
  for _ in range(2):
    watch._on_signal(signal.SIGTERM, None)
  assert watch.requested
  assert left == [128 + signal.SIGTERM]
