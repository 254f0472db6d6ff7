"""Small experiments of those that are shipped, each step of each for each TPU.

All of them: `python -m tests.slow.preflight_all`.
"""

import pytest

from tests.slow import preflight_all
from trainer import config
from trainer.preflight import bindings, check, topology
from trainer.settings import kinds

SMALL = ("digits.gin", "conv_op.gin", "fashion_mnist_cnn.gin")


@pytest.mark.preflight
@pytest.mark.parametrize("topology_name", preflight_all.TOPOLOGIES)
@pytest.mark.parametrize("file", SMALL)
def test_every_step_compiles_and_the_gradients_are_reduced(file, topology_name):
  config.load([f"gin_configs/{file}"], preflight_all.BINDINGS.get(file, ()))
  checker = check.Check(bindings.from_gin(), search_batch="never")
  reports = {kind: checker.check_step(kind, topology.find(topology_name)) for kind in kinds.Kind}
  assert {kind: report.problem for kind, report in reports.items() if report.failed} == {}
  assert reports["train"].all_reduces.replicas == 8
  assert reports["train"].all_reduces.bytes == reports["train"].trainable_bytes
