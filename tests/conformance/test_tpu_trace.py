"""Of each case a TPU gets programs without a host: a training sums its gradients over the cores,
and evaluation and prediction sum nothing.
"""

import pytest
import tensorflow as tf

import trainer
from tests import long
from tests.conformance import cases
from trainer import spec
from trainer.devices import replica
from trainer.programs import abstract_variables, graph_operations, plan, step, xla_program
from trainer.settings.kinds import Kind

CORES, PER_CORE, STEPS = 8, 2, 5

CASES_AND_KINDS = [(case, kind) for case in cases.CASES for kind in Kind]
# In the gate: state of Keras's, optimizers that are assigned to in the model_fn, metrics of v1.
QUICK = [
  (case, kind)
  for case, kind in CASES_AND_KINDS
  if (case.name, kind)
  in {
    ("batch_norm_and_dropout", Kind.TRAIN),
    ("two_optimizers", Kind.TRAIN),
    ("v1_variables", Kind.EVAL),
    ("scaffold_fn", Kind.PREDICT),
  }
]


def _id(value):
  return value.name if isinstance(value, cases.Case) else str(value)


@pytest.mark.parametrize("case, kind", long.except_for(QUICK, CASES_AND_KINDS), ids=_id)
def test_many_steps_are_one_program(case, kind):
  pytest.importorskip("jax")
  program = step.Program(
    spec.ModelFn(case.model_fn),
    strategy=replica.OneOfMany(CORES),
    params={},
    batch_sizes={},
    config=trainer.RunConfig(),
  )
  element = case.train_input_fn({"batch_size": PER_CORE}).element_spec
  with tf.variable_creator_scope(abstract_variables.without_values):
    traced = xla_program.trace(program, plan.Plan(kind, element, STEPS, limit_bytes=2**24))
  made = xla_program.of(traced, program.store, CORES).lower()
  assert made.replicas == CORES
  assert all(result.updates for result in made.results)
  operations = graph_operations.walk(traced.concrete.graph)
  sums = sum(operation.type == "XlaAllReduce" for operation in operations)
  trained = [variable for variable in program.store.variables.values() if variable.trainable]
  assert sums >= len(trained) > 0 if kind == Kind.TRAIN else sums == 0
