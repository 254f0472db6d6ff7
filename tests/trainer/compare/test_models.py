"""What `python -m trainer.compare out/a out/b` prints."""

import pytest

from tests.trainer.judgement import observed
from trainer import errors
from trainer.compare import models


def test_the_table_says_which_difference_is_more_than_noise(tmp_path):
  first = observed.write(tmp_path / "a", observed.classes(2000, right=0.9), step=10)
  observed.write(tmp_path / "a", observed.classes(2000, right=0.7, seed=2), step=20)
  lines = models.text([f"{first}@10", first], "").splitlines()
  assert lines[0] == f"On 2,000 examples, paired: first {first}@10, second {first}"
  accuracy = next(line for line in lines if line.startswith("accuracy"))
  assert accuracy.endswith("more than noise")
  assert "-0.2" in accuracy


def test_commas_join_the_seeds_of_a_side(tmp_path):
  runs = [
    observed.write(tmp_path / str(seed), observed.classes(right=0.8, seed=seed))
    for seed in range(4)
  ]
  text = models.text([",".join(runs[:2]), ",".join(runs[2:])], "")
  assert "2 and 2 runs" in text
  assert "may be noise" in text


def test_two_models_are_compared(tmp_path):
  with pytest.raises(errors.SettingError, match="3 models to compare; expected two"):
    models.text(["a", "b", "c"], "")
  with pytest.raises(errors.SettingError, match="'a,': expected the folders"):
    models.text(["a,", "b"], "")
