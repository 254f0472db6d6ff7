"""TPUs that are not there: a board, and a slice of four hosts."""

from tests.trainer.preflight import programs
from trainer.preflight import bridge, lower, made_up_tpu


def test_hosts_have_eight_cores_each():
  assert made_up_tpu.strategy(8).extended.num_hosts == 1
  extended = made_up_tpu.strategy(32).extended
  assert (extended.num_hosts, extended.num_replicas_per_host) == (4, 8)
  assert len(extended.worker_devices) == 32


def test_training_loop_of_four_hosts_passes_the_bridge():
  experiment = programs.experiment(per_core=2)
  element = lower.Steps(experiment, 32, {"train": 2}).contract("train")
  bridged = bridge.Loops(experiment, 32, {"train": 2}).bridge("train", element)
  assert (bridged.clusters, bridged.replicas, bridged.host_ops_in_loop) == (1, 32, [])
