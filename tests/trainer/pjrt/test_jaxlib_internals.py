"""What Octet asks of jaxlib's inner functions."""

import types

import pytest

jax = pytest.importorskip("jax")  # where it is installed
jaxlib_internals = pytest.importorskip("trainer.pjrt.jaxlib_internals")

PACKED = [("xla_tpu_buffer_assignment_enable_fast_merge_fallback", False)]


class Compiler:
  """A client that compiles nothing, and notes what it is asked for."""

  def __init__(self, platform, refusal=""):
    self.platform, self.asked, self._refusal = platform, [], refusal

  def compile_and_load(self, module, executable_devices, compile_options):
    options = list(compile_options.env_option_overrides)
    self.asked.append(options)
    if options and self._refusal:
      raise jax.errors.JaxRuntimeError(self._refusal)
    return options


@pytest.fixture(autouse=True)
def devices_of(monkeypatch):
  monkeypatch.setattr(jaxlib_internals, "_device_list", tuple)
  return lambda client: [types.SimpleNamespace(client=client, id=0)]


def module(text):
  operation = types.SimpleNamespace(get_asm=lambda large_elements_limit: text)
  return types.SimpleNamespace(operation=operation)


def test_only_a_tpu_compiler_is_asked_to_pack_buffers(devices_of):
  assert jaxlib_internals.compile_for(None, devices_of(Compiler("tpu"))) == PACKED
  assert jaxlib_internals.compile_for(module("stablehlo.dot"), devices_of(Compiler("cpu"))) == []


def test_convolutions_of_a_cpu_are_not_fused(devices_of):
  """Fused ones took four times as long."""
  found = jaxlib_internals.compile_for(module("stablehlo.convolution"), devices_of(Compiler("cpu")))
  assert found == [("xla_cpu_experimental_ynn_fusion_type", "")]


def test_a_gpus_compiler_is_asked_for_the_same_bits_each_time(devices_of):
  def options(**settings):
    return jaxlib_internals.compile_for(None, devices_of(Compiler("cuda")), **settings)

  assert options() == []
  assert options(deterministic=True) == [("xla_gpu_deterministic_ops", True)]


def test_tpu_compiler_without_the_option_compiles_without_it(devices_of):
  client = Compiler("tpu", "INVALID_ARGUMENT: No such compile option: 'xla_tpu_buffer'")
  assert jaxlib_internals.compile_for(None, devices_of(client)) == []
  assert client.asked == [PACKED, []]


def test_what_a_tpu_compiler_refuses_it_is_not_asked_again(devices_of):
  client = Compiler("tpu", "RESOURCE_EXHAUSTED: E1000: CompileTimeHbmOom")
  with pytest.raises(jax.errors.JaxRuntimeError, match="HbmOom"):
    jaxlib_internals.compile_for(None, devices_of(client))
  assert client.asked == [PACKED]
