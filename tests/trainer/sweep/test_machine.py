"""The machine is shared out among workers."""

import pytest

from trainer import errors
from trainer.sweep import machine


@pytest.mark.parametrize(
  ("count", "workers", "expected"),
  [
    (4, 2, [[0, 1], [2, 3]]),
    (5, 2, [[0, 1], [2, 3, 4]]),
    (2, 2, [[0], [1]]),
    (2, 3, [[0], [1], [0]]),
    (0, 2, [[], []]),
    (3, 1, [[0, 1, 2]]),
  ],
)
def test_shares(count, workers, expected):
  assert machine.shares(list(range(count)), workers) == expected


def test_slots_have_cores_and_gpus():
  assert machine.slots(2, "gpu", [0, 1, 2, 3], ["0", "1"]) == [
    {"cores": [0, 1], "environment": {"OMP_NUM_THREADS": "2", "CUDA_VISIBLE_DEVICES": "0"}},
    {"cores": [2, 3], "environment": {"OMP_NUM_THREADS": "2", "CUDA_VISIBLE_DEVICES": "1"}},
  ]
  assert machine.slots(1, "cpu", [7], []) == [
    {"cores": [7], "environment": {"OMP_NUM_THREADS": "1"}}
  ]


@pytest.mark.parametrize(
  ("workers", "device", "gpus"),
  [(2, "tpu", []), (2, "gpu", ["0"]), (2, "xla:gpu:2", ["0", "1", "2"])],
)
def test_devices_that_do_not_go_round(workers, device, gpus):
  with pytest.raises(errors.SettingError, match=f"--workers={workers}"):
    machine.slots(workers, device, [0, 1], gpus)


def test_gpus(tmp_path):
  for name in ("nvidia10", "nvidia2", "nvidiactl"):
    (tmp_path / name).touch()
  assert machine.gpus({}, str(tmp_path / "nvidia[0-9]*")) == ["2", "10"]
  assert machine.gpus({"CUDA_VISIBLE_DEVICES": "3,1"}) == ["3", "1"]
  assert machine.gpus({"CUDA_VISIBLE_DEVICES": ""}) == []
