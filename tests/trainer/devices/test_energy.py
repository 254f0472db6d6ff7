"""The energy of the machine, by made-up counters of Linux."""

import pytest

from trainer.devices import energy, nvidia_driver


@pytest.fixture
def processors(tmp_path):
  """A function that sets the counters of two processors, in microjoules; returns their glob."""

  def write(*values):
    for index, value in enumerate(values):
      folder = tmp_path / f"intel-rapl:{index}"
      folder.mkdir(exist_ok=True)
      (folder / "energy_uj").write_text(f"{value}\n")
      (folder / "max_energy_range_uj").write_text("1000000000\n")
    return str(tmp_path / "intel-rapl:[0-9]*")

  return write


def test_joules_since_the_last_call(processors):
  meter = energy.Meter(processors(5_000_000, 1_000_000))
  processors(7_500_000, 1_000_000)
  assert meter.take() == 2.5
  processors(7_500_000, 2_000_000)
  assert meter.take() == 1


def test_a_counter_that_began_anew(processors):
  meter = energy.Meter(processors(999_000_000))
  processors(4_000_000)
  assert meter.take() == 5


def test_parts_of_a_processor_do_not_count_twice(processors, tmp_path):
  glob = processors(0)
  part = tmp_path / "intel-rapl:0:0"
  part.mkdir()
  for name in ("energy_uj", "max_energy_range_uj"):
    (part / name).write_text("0")
  meter = energy.Meter(glob)
  processors(1_000_000)
  (part / "energy_uj").write_text("700000")
  assert meter.take() == 1


def test_without_counters_nothing_is_known(tmp_path, processors):
  assert energy.Meter(str(tmp_path / "*")).take() is None
  meter = energy.Meter(processors(1))
  (tmp_path / "intel-rapl:0" / "energy_uj").unlink()
  assert meter.take() is None  # the rest would be too little


def test_gpus_count_where_the_training_is_on_them(monkeypatch, processors):
  counted = iter([[1000, 2000], [3000, 2500]])  # millijoules
  monkeypatch.setattr(nvidia_driver, "energy", lambda: next(counted))
  meter = energy.Meter(processors(0), counts_gpus=True)
  processors(1_000_000)
  assert meter.take() == 1 + 2 + 0.5
