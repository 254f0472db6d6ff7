"""Under a real TPUStrategy over eight made-up cores, each step traces: one replicated region,
its gradients summed over the cores, no host in it.
"""

import pytest

import trainer
from tests import fake_tpu, long
from tests.conformance import cases
from trainer import spec
from trainer.inputs import groups
from trainer.preflight import bridge
from trainer.preflight import fake_tpu as fake_cores
from trainer.programs import device_loops, plan, step
from trainer.settings import kinds

CORES, PER_CORE = 8, 2

# What a TPU cannot compile, and what would wait for the host at every step.
HOST_OPERATIONS = {
  "EagerPyFunc",
  "PyFunc",
  "PyFuncStateless",
  "PrintV2",
  "StringFormat",
  "WriteSummary",
  "IteratorGetNext",
  "IteratorGetNextAsOptional",
}

CASES_AND_KINDS = [(case, kind) for case in cases.CASES for kind in kinds.Kind]
# In the gate: state of Keras's, optimizers that are assigned to in the model_fn, metrics of v1.
QUICK = [
  (case, kind)
  for case, kind in CASES_AND_KINDS
  if (case.name, kind)
  in {
    ("batch_norm_and_dropout", kinds.Kind.TRAIN),
    ("two_optimizers", kinds.Kind.TRAIN),
    ("v1_variables", kinds.Kind.EVAL),
    ("scaffold_fn", kinds.Kind.PREDICT),
  }
]


def _id(value):
  return value.name if isinstance(value, cases.Case) else str(value)


@pytest.fixture(scope="module")
def strategy():
  return fake_cores.strategy(CORES)


def made(case, strategy, steps_per_program=1):
  """The device loops of a case."""
  config = trainer.RunConfig(
    tpu_config=trainer.TPUConfig(steps_per_program=steps_per_program, stacked_input_bytes=2**24)
  )
  program = step.Program(
    spec.ModelFn(case.model_fn), strategy=strategy, params={}, batch_sizes={}, config=config
  )
  return device_loops.DeviceLoops(program, config, plan.Target(CORES))


def replicated(nodes):
  return [node for node in nodes if "_tpu_replicate" in node.attr]


def check_region(concrete_function):
  nodes = fake_tpu.operations(concrete_function)
  assert sum(node.op == "TPUReplicateMetadata" for node in nodes) == 1
  assert not HOST_OPERATIONS & {node.op for node in replicated(nodes)}
  return nodes


def test_train(case, strategy):
  loops = made(case, strategy)
  element_spec = case.train_input_fn({"batch_size": PER_CORE}).element_spec
  nodes = check_region(loops.trace_training(element_spec, is_endless=True).function)
  variables = loops.program.store.variables
  trained = [variable for variable in variables.values() if variable.trainable]
  # TensorFlow takes the mean over the cores of its moving averages too, equal as they are.
  averages = [name for name in variables if name.endswith("/ExponentialMovingAverage")]
  sums = [node for node in replicated(nodes) if node.op == "CrossReplicaSum"]
  assert len(sums) == len(trained) + len(averages) > 0


def test_evaluate_and_predict(case, strategy):
  loops = made(case, strategy)
  dataset = groups.group(case.eval_input_fn({"batch_size": PER_CORE}), PER_CORE, CORES)
  for kind in (kinds.Kind.EVAL, kinds.Kind.PREDICT):
    nodes = check_region(loops.trace_groups(kind, dataset.element_spec).function)
    assert not any(node.op == "CrossReplicaSum" for node in replicated(nodes))


@pytest.mark.parametrize("case, kind", long.except_for(QUICK, CASES_AND_KINDS), ids=_id)
def test_many_steps_are_one_cluster_without_a_host_in_their_loop(case, kind, strategy):
  """By TensorFlow's own TPU bridge."""
  loops = made(case, strategy, steps_per_program=5)
  dataset = case.train_input_fn({"batch_size": PER_CORE})
  if kind == kinds.Kind.TRAIN:
    program = loops.trace_training(dataset.element_spec, is_endless=True)
  else:
    group = groups.group(dataset, PER_CORE, CORES).element_spec
    program = loops.trace_groups(kind, group)
  assert program.plan.length == 5
  traced = program.function
  module = bridge.convert(traced)
  assert module.count("tf_device.replicate(") == module.count("tf_device.cluster_func") == 1
  assert f"n = {CORES} : i32" in module
  assert bridge.host_operations(traced.graph) == []


@pytest.mark.parametrize("case", cases.CASES[:1], ids=lambda case: case.name)
def test_a_step_that_the_host_calls_has_the_host_wait_for_its_loss(case, strategy):
  """What the test above looks for is found where it is."""
  element_spec = case.train_input_fn({"batch_size": PER_CORE}).element_spec
  traced = made(case, strategy).trace_training(element_spec, is_endless=True)
  by_host = bridge.host_operations(traced.function.graph)
  assert any(operation.startswith("IsFinite") for operation in by_host)
