"""Runs compiled programs on XLA devices with PJRT, the runtime of JAX, without TensorFlow.

connected = devices.connect("cpu", 8)
executable = execution.Executable(saved_program.read("out/program").program, connected)
"""

__all__ = [
  "compilation",
  "compiled_forms",
  "device_values",
  "devices",
  "execution",
  "hosts",
  "installed",
  "jaxlib_internals",
  "program",
  "saved_program",
  "tpu",
]
