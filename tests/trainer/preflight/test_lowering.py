"""What the TPU compiler makes of functionalized programs."""

import pytest
import tensorflow as tf

from tests.trainer.programs import pure
from trainer.pjrt import program as pjrt_program
from trainer.preflight import compiler, topology

pytestmark = pytest.mark.preflight

V5E = topology.find("v5e-8")


def compiled(function, *specs, updates=()):
  """Compiles a function.

  Args:
    function: the function.
    *specs: of its arguments.
    updates: the numbers of the arguments whose memory its results take.
  """
  from trainer.pjrt import jaxlib_internals

  traced = tf.function(function, autograph=False).get_concrete_function(*specs)
  role = pjrt_program.Role
  arguments = tuple(
    pjrt_program.Argument(
      str(number),
      tuple(spec.shape),
      spec.dtype.name,
      role.VARIABLE if number in updates else role.INPUT,
    )
    for number, spec in enumerate(specs)
  )
  results = tuple(
    pjrt_program.Result(
      str(updates[number]) if updates else f"result {number}",
      tuple(output.shape),
      output.dtype.name,
      bool(updates),
    )
    for number, output in enumerate(tf.nest.flatten(traced.structured_outputs))
  )
  code = jaxlib_internals.stablehlo_of_hlo(pure.lowered(traced))
  made = pjrt_program.Program(code, arguments, results, 8)
  return compiler.compile_program(pjrt_program.Source(made, "", {}, lambda: made), V5E, 300)


def drawn(seed):
  return tf.random.stateless_normal([512, 512], seed)


def resized(images):
  with tf.GradientTape() as tape:
    tape.watch(images)
    small = tf.image.resize(images, [32, 32])
  return tape.gradient(small, images)


@pytest.mark.parametrize(
  "function, spec",
  [(drawn, tf.TensorSpec([2], tf.int32)), (resized, tf.TensorSpec([8, 64, 64, 3]))],
)
def test_functionalized_replacements_need_no_temporaries(function, spec):
  """As TensorFlow lowers these for a CPU, they take 32 and 25 MiB; the results have 1 and 0.4."""
  assert compiled(function, spec).temporary_bytes <= 2**17


@pytest.mark.parametrize("updates, in_place", [((), 0), ((1, 0), 8 * 2**20)])
def test_a_result_takes_the_memory_of_an_argument_if_asked_to(updates, in_place):
  spec = tf.TensorSpec([1024, 1024])
  made = compiled(lambda x, y: (y + 1.0, x * y), spec, spec, updates=updates)
  assert made.aliased_bytes == in_place
