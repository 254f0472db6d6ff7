"""Times, costs, speed-ups and choices, against figures worked out by hand."""

import pytest

from tests.trainer.compare import fake_rows
from trainer.compare import prices, summary

CPU, VIRTUAL = fake_rows.row(1.0), fake_rows.row(0.01, "cpu:8")
XLA = fake_rows.row(0.01, "xla:8")
GPU = fake_rows.row(0.25, "gpu", machine=fake_rows.BOX)
TPU = fake_rows.row(0.1, "tpu", machine=fake_rows.BOX)
PRICES = [
  prices.Price("P100", 1.44, "USD", "", "s"),
  prices.Price("TPU v3", 7.2, "USD", "", "s"),
  prices.Price("a CPU", 0.1, "EUR", "", "s"),
]
ALL = summary.Summary([CPU, VIRTUAL, XLA, GPU, TPU, fake_rows.failed()], PRICES)


@pytest.mark.parametrize(("unit", "seconds"), [("step", 0.25), ("epoch", 2.5), ("run", 5.0)])
def test_times_are_the_median_times_the_steps(unit, seconds):
  assert summary.seconds_of(GPU, unit) == seconds


def test_what_has_no_epochs_has_no_time_for_them():
  row = fake_rows.row(epoch_examples=None, epochs=None)
  assert summary.seconds_of(row, "epoch") is None
  assert ALL.cost(row, "run") is None


def test_costs_are_hours_times_the_price():
  assert ALL.cost(GPU, "epoch") == pytest.approx(0.001)
  assert summary.Summary([GPU]).cost(GPU, "epoch") is None


@pytest.mark.parametrize(
  ("device", "rehearses"), [("cpu", False), ("cpu:8", True), ("xla:8", True), ("xla:gpu:2", False)]
)
def test_devices_of_a_cpu_rehearse(device, rehearses):
  assert summary.is_rehearsal(fake_rows.row(0.01, device)) == rehearses


def test_fastest_and_cheapest_are_measured_not_rehearsed():
  (choice,) = ALL.choices()
  assert choice.fastest == TPU
  assert choice.cheapest == {"USD": GPU, "EUR": CPU}


def test_speedups_are_over_the_cpu():
  assert ALL.speedup(GPU) == pytest.approx(4)
  assert ALL.speedup(TPU) == pytest.approx(10)
  assert [ALL.speedup(row) for row in (CPU, VIRTUAL, XLA)] == [None, None, None]


def test_speedup_is_over_the_cpu_of_the_same_machine():
  own = fake_rows.row(0.5, machine=fake_rows.BOX)
  assert summary.Summary([CPU, own, GPU]).speedup(GPU) == 2.0


def test_other_sizes_are_other_cases():
  large = fake_rows.row(batch_size=20)
  few = fake_rows.row(mode="predict", examples=3)
  assert [*summary.Summary([CPU, large, few]).cases()] == [
    ("net", "train", 10, None),
    ("net", "train", 20, None),
    ("net", "predict", 10, 3),
  ]


def test_machines_that_look_the_same_are_told_apart():
  twin = fake_rows.row(machine={**fake_rows.LAPTOP, "host": "twin"})
  assert summary.Summary([CPU]).label(CPU) == "cpu (a CPU)"
  assert summary.Summary([CPU, twin]).label(twin) == "cpu (a CPU) on twin"


def test_a_process_that_was_killed_has_told_no_machine():
  killed = fake_rows.failed(machine={}, hardware="")
  told = fake_rows.failed(hardware="")
  found = summary.Summary([killed, told])
  assert [found.label(row) for row in (killed, told)] == ["gpu", "gpu"]
