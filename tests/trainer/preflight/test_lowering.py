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


@needs_tpu
def test_random_numbers_are_the_tpus_own():
  w = tf.Variable(tf.ones([8]))
  text = text_of(
    lambda x: w.assign(x * tf.random.stateless_uniform([8], [1, 2])), tf.TensorSpec([])
  )
  assert "algorithm=rng_default" in text  # a CPU lowering asks for rng_philox


@needs_tpu
def test_the_gradient_of_a_resize_is_the_tpus_own():
  def gradient(images):
    with tf.GradientTape() as tape:
      tape.watch(images)
      small = tf.image.resize(images, [8, 8])
    return tape.gradient(small, images)

  # The TPU compiler has a program for it; a CPU lowering multiplies by matrices of weights.
  text = text_of(gradient, tf.TensorSpec([2, 16, 16, 3]))
  assert 'custom_call_target="ResizeBilinearGrad"' in text


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
  made = lowering.lower(traced.function, traced.specs)
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


@pytest.mark.parametrize("is_tpu", [False, True])
def test_what_cannot_be_made_pure_is_said_with_the_other_environment(monkeypatch, is_tpu):
  """Where tensorflow-tpu is installed. Elsewhere nothing needs to be pure."""
  monkeypatch.setattr(lowering, "is_as_on_tpu", lambda: is_tpu)
  generator = tf.random.Generator.from_seed(1)
  function = tf.function(lambda x: x + generator.normal([2]), jit_compile=True)
  spec = tf.TensorSpec([2])
  function.get_concrete_function(spec)
  if is_tpu:
    with pytest.raises(lowering.LowerError, match=r"RngReadAndSkip \(.*\[cpu,preflight\]"):
      lowering.lower(function, [spec])
  elif not lowering.tensorflow_package.installed().for_tpu:
    assert lowering.lower(function, [spec]).lowering == hlo_program.CPU
