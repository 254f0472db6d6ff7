"""Over two made-up GPUs each training step traces: on the GPUs, its gradients summed by NCCL."""

import collections

import trainer
from tests import fake_gpus, node_defs
from tests.conformance import cases
from trainer import spec
from trainer.devices import device as device_lib
from trainer.programs import device_loops, plan, step

GPUS, PER_CORE = 2, 8


def trace(case, all_reduce):
  """(variables that are trained, nodes of the training loop)."""
  with fake_gpus.Gpus(GPUS):
    device = device_lib.connect(f"gpu:{GPUS}", gpu=trainer.GPUConfig(all_reduce=all_reduce))
  program = step.Program(
    spec.ModelFn(case.model_fn),
    strategy=device.strategy,
    params={},
    batch_sizes={},
    config=trainer.RunConfig(),
  )
  target = plan.target_of(device, trainer.RunConfig())
  loops = device_loops.DeviceLoops(program, trainer.RunConfig(), target)
  element_spec = case.train_input_fn({"batch_size": PER_CORE}).element_spec
  traced = loops.trace_training(element_spec, is_endless=True).function
  trained = [variable for variable in program.store.variables.values() if variable.trainable]
  return trained, node_defs.operations(traced)


def test_gradients_are_summed_by_nccl(case):
  _, nodes = trace(case, "nccl")
  sums = [node for node in nodes if node.op == "CollectiveReduceV2"]
  assert {node.attr["communication_hint"].s for node in sums} == {b"nccl"}
  by_gpu = collections.Counter(node.device[-5:] for node in sums)
  assert set(by_gpu) == {"GPU:0", "GPU:1"}
  assert by_gpu["GPU:0"] == by_gpu["GPU:1"] > 0


def test_or_on_one_gpu():
  trained, nodes = trace(cases.CASES[0], "without_nccl")
  assert not any(node.op == "CollectiveReduceV2" for node in nodes)
  assert sum(node.op == "AddN" and node.device.endswith("GPU:0") for node in nodes) >= len(trained)
