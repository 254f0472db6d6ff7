"""Lowering as a TPU does, which takes tensorflow-tpu; and that variables are updated in place."""

import pytest
import tensorflow as tf

from tests.trainer.preflight import programs
from trainer.preflight import compiler, topology
from trainer.preflight import steps as steps_lib
from trainer.programs import functionalize, hlo_program, lowering

needs_tpu = pytest.mark.skipif(
  not lowering.is_as_on_tpu(), reason="tensorflow-tpu is not installed: the extras [tpu,preflight]"
)


def lowered(function, *specs):
  traced = tf.function(function, autograph=False).get_concrete_function(*specs)
  return lowering.lower_functionalized(functionalize.Functionalized(traced), "TPU")


def text_of(function, *specs):
  """The HLO of a function, as text."""
  made = functionalize.Functionalized(
    tf.function(function, autograph=False).get_concrete_function(*specs)
  )
  count = len(made.specs)
  pure = tf.function(lambda *given: made.call(given[:count], given[count:]), jit_compile=True)
  return pure.experimental_get_compiler_ir(*made.specs, *specs)(stage="hlo", platform_name="TPU")


RANDOM = tf.TensorSpec([2], tf.int32)


def drawn(seed):
  return tf.random.stateless_normal([512, 512], seed)


IMAGES = tf.TensorSpec([8, 64, 64, 3])


def resized(images):
  with tf.GradientTape() as tape:
    tape.watch(images)
    small = tf.image.resize(images, [32, 32])
  return tape.gradient(small, images)


@pytest.mark.preflight
@pytest.mark.parametrize("function, spec", [(drawn, RANDOM), (resized, IMAGES)])
def test_what_a_functionalized_program_takes_instead_needs_no_temporaries(function, spec):
  """As TensorFlow lowers these for a CPU, they take 32 and 25 MiB; the results have 1 and 0.4."""
  made = lowering.lower(tf.function(function, autograph=False).get_concrete_function(spec))
  compiled = compiler.compile_program(made, topology.find("v5e-8"), 300)
  assert compiled.temporary_bytes < 2**17


@needs_tpu
@pytest.mark.preflight
def test_what_a_mask_leaves_is_found_by_sorting_and_compiles():
  def masked(x, mask):
    return tf.reduce_sum(tf.boolean_mask(x, mask))

  specs = tf.TensorSpec([64, 8]), tf.TensorSpec([64], tf.bool)
  text = text_of(masked, *specs)
  assert " sort(" in text
  assert " scatter(" not in text  # as a CPU lowering does
  made = lowered(masked, *specs)
  compiled = compiler.compile_program(made, topology.find("v3-8"), 300)
  assert isinstance(compiled, compiler.Compiled)


@needs_tpu
@pytest.mark.preflight
def test_variables_of_many_steps_are_updated_in_place():
  steps = steps_lib.Steps(programs.experiment(), 8, {"train": 8})
  traced = steps.trace_planned("train", steps.call_input_fn("train"))
  made = lowering.lower(traced.concrete)
  assert made.lowering == hlo_program.TPU
  assert made.hlo.count(b"all-reduce") > 0
  compiled = compiler.compile_program(made, topology.find("v3-8"), 300)
  variables = sum(
    variable.shape.num_elements() * variable.dtype.size
    for variable in steps.program.store.variables.values()
  )
  assert compiled.aliased_bytes >= variables


@pytest.mark.preflight
@pytest.mark.skipif(lowering.is_as_on_tpu(), reason="this TensorFlow lowers for no CPU")
def test_a_result_takes_the_memory_of_a_parameter_if_asked_to():
  spec = tf.TensorSpec([1024, 1024])
  function = tf.function(lambda x, y: (y + 1.0, x * y), jit_compile=True)
  hlo = function.experimental_get_compiler_ir(spec, spec)(stage="hlo_serialized")
  v3 = topology.find("v3-8")
  aliased = [
    compiler.compile_program(hlo_program.HloProgram(hlo, aliases=aliases), v3, 300).aliased_bytes
    for aliases in ((), ((1, 0),))
  ]
  assert aliased == [0, 4 * 2**20]


def test_what_cannot_be_made_pure_is_said_with_its_place():
  state = tf.random.Generator.from_seed(1).state
  draw = tf.raw_ops.StatefulStandardNormalV2
  function = tf.function(lambda x: x + draw(resource=state.handle, algorithm=1, shape=[2]))
  with pytest.raises(lowering.LowerError, match=rf"StatefulStandardNormalV2 \({__file__}:\d+\)"):
    lowering.lower(function.get_concrete_function(tf.TensorSpec([2])))


def test_a_size_of_the_data_is_said_with_its_place():
  function = tf.function(lambda x: tf.where(x > 0))
  with pytest.raises(lowering.LowerError, match=rf"Where \({__file__}:\d+\) has as many rows"):
    lowering.lower(function.get_concrete_function(tf.TensorSpec([2])))
