"""The device loops of the shipped experiments, through TensorFlow's TPU bridge.

Those of the conformance cases: tests/conformance/test_tpu_trace.py.
"""

import pathlib

import pytest

from tests import long
from tests.slow import preflight_all
from trainer import config
from trainer.preflight import bindings, bridge, steps
from trainer.settings import kinds

CORES = 8
# All but breast_cancer.gin, whose batches do not divide among eight cores.
SHIPPED = sorted(
  path.name for path in pathlib.Path("gin_configs").glob("*.gin") if path.stem != "breast_cancer"
)


@pytest.mark.parametrize("kind", kinds.Kind)
@pytest.mark.parametrize("file", long.except_for(["paradnn_fully_connected.gin"], SHIPPED))
def test_a_loop_is_one_cluster_and_no_op_of_the_host_in_it_waits(file, kind, tmp_path):
  (tmp_path / "words.txt").write_text("\n".join(map(str, range(preflight_all.WORDS))))
  changes = [line.format(results=tmp_path) for line in preflight_all.BINDINGS.get(file, ())]
  config.load([f"gin_configs/{file}"], changes)
  experiment = bindings.from_gin()
  per_core = {kind: experiment.per_core(kind, CORES) for kind in experiment.kinds()}
  element = steps.Steps(experiment, CORES, per_core).call_input_fn(kind)
  found = bridge.Loops(experiment, CORES, per_core).bridge(kind, element)
  assert (found.clusters, found.replicas) == (1, CORES)
  assert found.steps_per_program > 1
  assert found.host_ops_in_loop == []
