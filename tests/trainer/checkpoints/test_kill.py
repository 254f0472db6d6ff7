"""A real process, killed with SIGKILL and started again, comes to the same bits.

The long proof is tests/slow/kill_and_resume.py.
"""

import pytest

from tests.slow import kill_and_resume


@pytest.mark.long
def test_a_killed_training_comes_to_the_same_bits():
  kills, _ = kill_and_resume.compare(kills=2, device="cpu", steps=600)
  assert kills == 2
