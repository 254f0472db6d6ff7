"""Runs small model_fns that make more operations than they fetch, on TensorFlow 2.15 and here.

    python -m tests.slow.legacy_graphs --tf215=tf215/bin/python

Each model_fn of tests/compat/graph_cases.py trains for five steps on TensorFlow 2.15 and here: on
one core, on two, on two XLA devices, and in programs of many steps. The variables must then be
equal. --tf215 is a Python with tensorflow-cpu==2.15.*; without it, the values come from
tests/compat/graphs_2_15.json. --record writes that file.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
from absl import app, flags

_TF215 = flags.DEFINE_string("tf215", "", "A Python that has TensorFlow 2.15; empty: left out.")
_RECORD = flags.DEFINE_bool("record", False, "Whether what 2.15 gives is kept for the tests.")

_CASES = pathlib.Path(__file__).parents[1] / "compat" / "graph_cases.py"
_RECORDED = _CASES.with_name("graphs_2_15.json")

# Name of a way to run → (OCTET_DEVICE, steps of a program).
_WAYS = {
  "cpu": ("cpu", ""),
  "cpu:2": ("cpu:2", ""),
  "xla:2": ("xla:2", ""),
  "cpu, 5 steps in a program": ("cpu", "5"),
  "cpu:2, 5 steps in a program": ("cpu:2", "5"),
}


def values(python: str, names: str, device: str = "cpu", steps: str = "") -> dict:
  """Returns each case's variables by name, or an error."""
  environment = dict(os.environ, OCTET_DEVICE=device, CUDA_VISIBLE_DEVICES="")
  if names.startswith("trainer"):
    environment["PYTHONPATH"] = os.getcwd()
  with tempfile.TemporaryDirectory() as folder:
    out = os.path.join(folder, "values.json")
    command = [python, str(_CASES), names, out, *([steps] if steps else [])]
    with open(os.path.join(folder, "log"), "w") as log:
      subprocess.run(command, env=environment, stdout=log, stderr=subprocess.STDOUT, check=True)
    return json.loads(pathlib.Path(out).read_text())


def differences(found: dict, expected: dict) -> list[str]:
  """Yields a line for each variable that differs, and for each error."""
  lines = []
  for case, wanted in expected.items():
    got = found.get(case, "is not there")
    if isinstance(got, str) or isinstance(wanted, str):
      lines.append(f"{case}: here {got!s:.200}; 2.15 {wanted!s:.200}")
    elif sorted(got) != sorted(wanted):
      lines.append(f"{case}: variables {sorted(got)}; 2.15 {sorted(wanted)}")
    else:
      lines += [
        f"{case}: {name} is {got[name]}; 2.15 {wanted[name]}"
        for name in wanted
        if not np.allclose(got[name], wanted[name], rtol=1e-5, atol=1e-6)
      ]
  return lines


def main(_: list[str]) -> None:
  expected = json.loads(_RECORDED.read_text())
  if _TF215.value:
    expected = values(_TF215.value, "tensorflow.compat.v1")
    if _RECORD.value:
      _RECORDED.write_text(json.dumps(expected, indent=1, sort_keys=True) + "\n")
  failed = False
  for way, (device, steps) in _WAYS.items():
    lines = differences(values(sys.executable, "trainer.compat.v1", device, steps), expected)
    failed = failed or bool(lines)
    print(f"{way}: {len(expected)} model_fns, {len(lines)} differences", *lines, sep="\n  ")
  if failed:
    sys.exit(1)


if __name__ == "__main__":
  app.run(main)
