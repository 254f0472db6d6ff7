import re

import pytest

from tests.trainer.preflight import programs
from trainer import errors
from trainer.preflight import check, topology


def test_eight_cores():
  for name in ("v2-8", "v3-8", "v4-8", "v5e-8", "v6e-8"):
    assert topology.find(name).replicas == 8
  # The name counts two cores a chip, which run one replica.
  assert topology.find("v5p-8").replicas == 4


def test_slices_have_the_names_of_google_cloud():
  found = {name: topology.find(name) for name in ("v3-2048", "v4-128", "v5e-256", "v5p-1024")}
  assert {name: each.compiler_name for name, each in found.items()} == {
    "v3-2048": "v3:32x32",
    "v4-128": "v4:4x4x4",
    "v5e-256": "v5e:16x16",
    "v5p-1024": "v5p:8x8x8",
  }
  assert [each.replicas for each in found.values()] == [2048, 128, 256, 512]
  assert topology.find("v5litepod-256") is found["v5e-256"]


def test_peaks_are_shared_by_the_cores_of_a_chip():
  assert topology.find("v2-8").flops_per_second == 23e12
  assert topology.find("v5e-8").bytes_per_second == 819e9


def test_unknown_name_gives_the_list():
  with pytest.raises(errors.SettingError, match="v2-8, 32, 128"):
    topology.find("v3-7")


def test_xla_devices_of_a_cpu_are_one_too():
  found = topology.find("xla:4")
  assert (found.name, found.kind, found.replicas, found.memory_bytes) == ("xla:4", "xla", 4, 0)
  with pytest.raises(errors.SettingError, match="expected v2-8"):
    topology.find_tpu("xla:4")


@pytest.mark.preflight
def test_memory_is_what_the_compiler_says_when_it_is_short():
  """Of every topology: a program that fits none of them stops early, in about a second."""
  checker = check.Check(programs.experiment(per_core=2**22), search_batch="never")
  for each in filter(lambda each: re.search(r"-8\b", each.name), topology.TOPOLOGIES.values()):
    report = checker.check_step("train", each)
    assert report.failed == "fit", report.problem
    assert report.out_of_memory.available_bytes / 2**30 == pytest.approx(
      each.chip.memory_gib, abs=0.011
    ), each.name
