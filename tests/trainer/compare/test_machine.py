"""The description of a machine: names of its hardware."""

import pathlib
import types

import pytest

from trainer.compare import machine
from trainer.devices import gpus


def device(kind, replicas=1, chip=""):
  uses_gpus = kind in ("gpu", "xla")
  return types.SimpleNamespace(
    kind=kind, replicas=replicas, local_replicas=replicas, chip=chip, uses_gpus=uses_gpus
  )


@pytest.mark.parametrize(
  ("given", "tpu_type", "variable", "name"),
  [
    (device("tpu", 8), "v3-8", "v4-8", "TPU v3-8"),
    (device("tpu", 8), "", "v4-8", "TPU v4-8"),
    (device("tpu", 8, "TPU v5e"), "", "", "8 × TPU v5e"),
    (device("gpu"), "", "", "H100"),
    (device("gpu", 2), "", "", "2 × H100"),
    (device("xla", 2, "A10"), "", "", "2 × A10"),  # which PJRT drives
  ],
)
def test_hardware_has_the_name_of_the_price_tables(monkeypatch, given, tpu_type, variable, name):
  monkeypatch.setenv("TPU_ACCELERATOR_TYPE", variable)
  monkeypatch.setattr(gpus, "names", lambda: ["H100", "H100", "A100"])
  assert machine.hardware(given, tpu_type) == name


def test_a_processor_has_a_plain_name(monkeypatch):
  text = "processor : 0\nmodel name\t: Intel(R) Xeon(R)  CPU @ 2.00GHz: x\nmodel name : other\n"
  monkeypatch.setattr(pathlib.Path, "read_text", lambda path: text)
  monkeypatch.setattr(machine.os, "cpu_count", lambda: 4)
  assert machine.processor() == "Intel Xeon @ 2.00GHz: x, 4 cores"
  assert machine.hardware(device("cpu")) == machine.processor()


def test_a_description_has_what_a_row_needs():
  found = machine.describe()
  assert found["cpu_cores"] >= 1
  assert all(isinstance(value, str | int) for value in found.values())
