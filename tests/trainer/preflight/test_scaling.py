"""The table of estimates over more cores, from made-up figures of the compiler."""

import dataclasses

import pytest

from tests.trainer.preflight import programs
from tests.trainer.preflight.test_report import compiled
from trainer import errors
from trainer.preflight import bindings, check, estimates, hlo, prices, scaling, topology

V3_8, V3_32, V3_2048 = (topology.find(name) for name in ("v3-8", "v3-32", "v3-2048"))


def report(where, step=0.001, size=82_000_000, per_core=128):
  """A step of `step` seconds and an all-reduce of `size` bytes; 82 MB take 0.5 ms on v3's links."""
  return check.StepReport(
    "train",
    where,
    per_core=per_core,
    compiled=compiled(),
    all_reduces=hlo.AllReduces((size,), where.replicas),
    time=estimates.StepTime(step, None, "compute"),
  )


def test_all_reduce_moves_its_bytes_twice_over_chip_links():
  # 4 links of 82 GB/s; all but one of 1,024 chips' parts come and go.
  torus, mesh = scaling.all_reduce_seconds(328_000_000, V3_2048)
  assert torus == pytest.approx(2e-3 * 1023 / 1024)
  assert mesh == 2 * torus


def test_range_is_from_a_hidden_all_reduce_to_one_that_waits():
  row = scaling.row(scaling.PER_CORE, report(V3_2048), None)
  assert row.low == pytest.approx(0.001)
  assert row.high == pytest.approx(0.002, rel=0.01)
  # Where it takes longer than the step, it cannot be hidden.
  row = scaling.row(scaling.PER_CORE, report(V3_2048, step=1e-4), None)
  assert row.low == pytest.approx(0.0005, rel=0.01)


def test_efficiency_is_that_of_a_core_beside_the_first_row():
  rows = [
    scaling.row(scaling.PER_CORE, report(V3_8, size=0), None),
    scaling.row(scaling.PER_CORE, report(V3_2048), None),
  ]
  first, last = scaling.with_efficiency(rows)
  assert first.efficiency == (1.0, 1.0)
  assert last.efficiency == pytest.approx((0.5, 1.0), rel=0.01)
  assert "50% to 100%" in scaling.text([first, last])


def test_the_cost_is_of_a_million_examples():
  price = prices.Price("v3-8", 8.0, "USD", "2018-10-08", "a page")
  row = scaling.row(scaling.PER_CORE, report(V3_8, step=3.6, size=0), price)
  # 1,024 examples in 3.6 s cost 0.008 dollars.
  low, high, currency = row.cost
  assert (low, high) == pytest.approx((0.008 * 1e6 / 1024, 0.008 * 1e6 / 1024))
  assert currency == "USD"


def test_batches_are_those_of_the_first_topology():
  experiment = programs.experiment(per_core=128)
  found = scaling.experiments(experiment, [V3_8, V3_32, V3_2048])
  assert [case.per_core("train", each.replicas) for each, case in found[scaling.PER_CORE]] == [
    *(128, 128, 128)
  ]
  (_, eight), (_, more), (_, reason) = found[scaling.GLOBAL]
  assert (eight.per_core("train", 8), more.per_core("train", 32)) == (128, 32)
  assert reason == "cannot divide 1,024 examples over 2,048 cores"


def test_what_cannot_be_compared_is_an_error():
  experiment = programs.experiment(per_core=8)
  with pytest.raises(errors.SettingError, match="two or more"):
    scaling.experiments(experiment, [V3_8])
  with pytest.raises(errors.SettingError, match="for TPUs, and not for xla:8"):
    scaling.experiments(experiment, [V3_8, topology.find("xla:8")])
  without = dataclasses.replace(experiment, input_fns={})
  with pytest.raises(errors.SettingError, match=r"run\.train_input_fn"):
    scaling.experiments(without, [V3_8, V3_32])
  assert isinstance(without, bindings.Experiment)


def test_step_that_fails_has_its_reason_in_place_of_figures():
  failed = check.StepReport("train", V3_32, 128, failed="fit", problem="Out of memory: 20 G\nmore")
  rows = scaling.with_efficiency([scaling.row(scaling.PER_CORE, failed, None)])
  assert "v3-32: no figures: fit: Out of memory: 20 G" in scaling.text(rows)
  assert scaling.as_dict(rows[0])["problem"] == "fit: Out of memory: 20 G"
