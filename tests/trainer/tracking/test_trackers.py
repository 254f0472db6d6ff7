"""The metrics of a line, as trackers get them."""

import math

from trainer.reporting import metrics_file
from trainer.tracking import trackers


def test_names_have_the_kind_and_none_is_nan(tmp_path):
  values = {"loss": 1, "ok": True, "bad": math.inf, "a/b": 0.1, "step": 3.0, "kind": 4.0}
  metrics_file.append(str(tmp_path), "eval_test", 10, values)
  [line] = metrics_file.read(str(tmp_path))
  found = trackers.values_of(line)
  assert math.isnan(found.pop("eval_test/bad"))
  assert found == {
    "eval_test/loss": 1.0,
    "eval_test/ok": 1.0,
    "eval_test/a/b": 0.1,
    "eval_test/step_": 3.0,
    "eval_test/kind_": 4.0,
  }
  assert all(type(value) is float for value in found.values())
