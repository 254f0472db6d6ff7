"""Lowers a traced function as a TPU does, on a machine that has none.

It takes tensorflow-tpu: other TensorFlows do not have the operations of XLA's TPU device. There it
is the only way: this TensorFlow lowers nothing for a CPU.
"""

import re

import tensorflow as tf

from trainer.devices import tensorflow_package
from trainer.programs import functionalize, hlo_program


def is_installed() -> bool:
  """Returns whether the installed TensorFlow can lower as a TPU does."""
  return tensorflow_package.installed().for_tpu


class Lowering:
  """The lowering of one function.

  Args:
    traced: the function.

  Raises:
    ImpureError: the function cannot be made a function without variables.
  """

  def __init__(self, traced: tf.types.experimental.ConcreteFunction) -> None:
    self._pure = functionalize.Functionalized(traced)
    self._arguments = [
      tf.TensorSpec(tensor.shape, tensor.dtype)
      for tensor in traced.graph.inputs[: len(traced.graph.inputs) - len(traced.graph.captures)]
    ]

  def lower(self) -> hlo_program.HloProgram:
    """Lowers the function. A variable that it assigns is updated in place, as on a TPU.

    Raises:
      ImpureError: the function cannot be made a function without variables.
      ValueError: XLA cannot compile it.
    """
    count = len(self._pure.specs)

    def pure(*given):
      return self._pure.call(given[:count], given[count:])

    specs = [*self._pure.specs, *self._arguments]
    function = tf.function(pure, jit_compile=True, autograph=False)
    outputs = function.get_concrete_function(*specs).outputs
    # XLA leaves the results out that it knows already.
    computed = [tf.get_static_value(output) is None for output in outputs]
    aliases = tuple(
      (sum(computed[:position]), parameter)
      for position, parameter in enumerate(self._pure.assigned)
      if computed[position]
    )
    hlo = function.experimental_get_compiler_ir(*specs)(stage="hlo_serialized", platform_name="TPU")
    return hlo_program.HloProgram(hlo, hlo_program.TPU, aliases)

  def operation_in(self, message: str) -> tf.Operation | None:
    """Returns the operation of the traced function that an error message of XLA is about."""
    for name in re.findall(r"\{\{node ([^}]+)\}\}|node `([^`]+)`", message):
      if operation := self._pure.operations.get("".join(name)):
        return operation
    return None
