"""TPUs that are not there: a board, and a slice of four hosts."""

import re

import pytest
import tensorflow as tf

from tests.trainer.preflight import programs
from trainer import spec
from trainer.inputs import stacks
from trainer.preflight import bridge, fake_tpu, steps
from trainer.programs import abstract_variables
from trainer.programs import step as step_lib


def test_hosts_have_eight_cores_each():
  assert fake_tpu.strategy(8).extended.num_hosts == 1
  extended = fake_tpu.strategy(32).extended
  assert (extended.num_hosts, extended.num_replicas_per_host) == (4, 8)
  assert len(extended.worker_devices) == 32


def test_training_loop_of_four_hosts_passes_the_bridge():
  experiment = programs.experiment(per_core=2)
  element = steps.Steps(experiment, 32, {"train": 2}).call_input_fn("train")
  bridged = bridge.Loops(experiment, 32, {"train": 2}).bridge("train", element)
  assert (bridged.clusters, bridged.replicas, bridged.host_ops_in_loop) == (1, 32, [])


@pytest.mark.long
def test_each_host_makes_the_input_of_its_own_cores():
  """From the iterators of four hosts to the program: what each core gets comes from its host."""
  experiment = programs.experiment(per_core=2)
  strategy = fake_tpu.strategy(32)
  cores = strategy.extended.worker_devices
  program = step_lib.Program(
    spec.ModelFn(experiment.model_fn),
    strategy=strategy,
    params=dict(experiment.params, use_tpu=True),
    batch_sizes={"train": 2},
    config=experiment.config,
  )

  def dataset_of(context):
    assert (context.num_input_pipelines, context.num_replicas_in_sync) == (4, 32)
    return stacks.stack_for_cores(programs.input_fn({"batch_size": 2}), 3, 8)

  def train():
    iterator = iter(stacks.distributed(strategy, dataset_of))
    steps, elements = stacks.of_each_core(strategy, next(iterator), cores)
    program.train_steps(elements, tf.constant(0), tf.cast(steps, tf.int32))
    return elements

  with tf.variable_creator_scope(abstract_variables.without_values):
    traced = tf.function(train, autograph=False).get_concrete_function()
  module = bridge.convert(traced)
  assert (module.count("tf_device.cluster_func"), bridge._replicas(module)) == (1, 32)
  operands = re.search(r"tf_device\.replicate\(\[(.*?)\] as", module)[1].split(", ")
  assert len(operands) == 32
  for core, operand in enumerate(operands):
    copy = re.search(rf'{operand} = "tf.Identity"\((%\d+)#\d\) {{device = "(.*?)"}}', module)
    made = re.search(rf'{copy[1]}:\d = "tf.IteratorGetNext"\(.*?device = "(.*?)"', module)
    host = f"/job:worker/replica:0/task:{core // 8}/device:"
    assert (copy[2], made[1]) == (f"{host}TPU:{core % 8}", f"{host}CPU:0")
