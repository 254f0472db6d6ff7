"""The variables of an Estimator on XLA devices, which hold the values between programs.

    variables = XlaVariables(store, connected)
    variables.give(program.variables)   # before a program: copies assigned values to the devices
    executable.run(variables.on_devices, ...)
    variables.bring_to_host()           # at a boundary: copies the programs' values to the host

TensorFlow's variables on the host have the training's values at boundaries only: before a
checkpoint, before a hook that reads variables, before an evaluation, and at the end. Between
boundaries they have the values of the last boundary. An assignment at a boundary (a restore, a
hook, a rollback) reaches the devices before the next program.
"""

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np
import tensorflow as tf

from trainer import errors
from trainer.pjrt import program as pjrt_program
from trainer.settings.kinds import Kind


class XlaVariables:
  """The variables of one store, on the host and on XLA devices.

  Attributes:
    on_devices: the device_values.DeviceValues.
    devices: the pjrt.devices.Devices.
  """

  def __init__(self, store: Any, connected: Any, compiled: str = "") -> None:
    from trainer.pjrt import compilation, device_values  # they import jax

    self.on_devices = device_values.DeviceValues(connected)
    self.devices = connected
    self._compiler = compilation.Compiler(connected, compiled)
    self._store = store
    self._variables: dict[str, tf.Variable] = {}  # by name, those of `_arguments` and others
    self._arguments: dict[str, pjrt_program.Argument] = {}  # of all programs so far
    # By name, the tensor that a variable had when host and devices were last equal. TensorFlow
    # assigns a new buffer while somebody holds the old one, so another buffer means an assignment.
    self._equal: dict[str, tf.Tensor] = {}
    self._is_newer_on_devices = False
    self._may_be_assigned = True  # on the host, since the last program
    self._is_compared = False  # whether Octet has compared the devices' values

  def prepare(self, source: pjrt_program.Source) -> None:
    """Lowers a program without a compiled form, see `compilation.Compiler.prepare`."""
    self._compiler.prepare(source)

  def compile(self, source: pjrt_program.Source, kind: Kind) -> Any:
    """Returns the execution.Executable of a program for the devices.

    Raises:
      ModelFnError: other hosts have another program.
    """
    if self.devices.is_shared:
      # Programs that differ would wait for each other for ever.
      self._compare_hosts(
        source.digest,
        f"The program of {kind} is another one on other hosts: a model_fn must not build anything "
        "that depends on the host, such as on its name, its files, or the order of a set.",
      )
    return self._compiler.compile(source, kind)

  def give(self, arguments: Iterable[pjrt_program.Argument]) -> None:
    """Copies values that the devices lack, or that the host has assigned, to the devices."""
    new = {each.name: each for each in arguments if each.name not in self._arguments}
    if not new and not self._may_be_assigned:
      return
    if new:
      self._arguments.update(new)
      self._variables = {_name(self._store, each): each for each in _all_variables(self._store)}
    assigned = self._assigned()
    if self.on_devices.is_lost:
      assigned = self._all_of(assigned)
    self._may_be_assigned = False
    if assigned:
      values = {name: tensor.numpy() for name, tensor in assigned.items()}
      self.on_devices.put([self._arguments[name] for name in assigned], values)
      self._equal.update(assigned)

  def mark_changed(self) -> None:
    """Notes that a program has changed variables on the devices."""
    self._is_newer_on_devices = True

  def mark_assigned(self, variables: Iterable[tf.Variable] = ()) -> None:
    """Records that the host may have assigned variables.

    Args:
      variables: assigned variables, even if their value did not change: every device takes the
        host's value.
    """
    self._may_be_assigned = True
    for variable in variables:
      self._equal.pop(_name(self._store, variable), None)

  def count_on_host(self, global_step: tf.Variable, value: int) -> None:
    """Assigns the host's global step, after the devices have counted it themselves."""
    global_step.assign(value)
    self._equal[_name(self._store, global_step)] = global_step.read_value()

  def bring_to_host(self) -> None:
    """Copies the devices' values to the host's variables; for statistics, their mean.

    If several hosts drive the devices, all of them must call this at the same steps.

    Values that the host assigned since the last program stay. The host may assign after this call.

    Raises:
      ExecutionError: a program has failed, and the values are lost.
      ModelFnError: the devices differ in a variable that must be equal on all of them.
    """
    self._may_be_assigned = True
    if not self._is_newer_on_devices:
      return
    assigned = self._assigned()
    # Without the local variables: their own reader fetches a program's values.
    saved = self._store.variables
    names = [name for name in self._arguments if name in saved and name not in assigned]
    if names and not self._is_compared:
      self._compare(names)
    # If everything has new values, as after a restore, the devices need to return none.
    for name, value in (self.on_devices.read(names) if names else {}).items():
      own = self._arguments[name].differs
      saved[name].assign(mean_of(value) if own else value)
    self._is_newer_on_devices = False
    self._equal.update({name: saved[name].read_value() for name in names})

  def read_each(self, variables: Iterable[tf.Variable]) -> list[np.ndarray]:
    """Returns each device's values of local variables, [devices, ...]; waits for the devices.

    The devices are those of all hosts, and all hosts must call this.

    Raises:
      ExecutionError: a program has failed.
    """
    names = [_name(self._store, variable) for variable in variables]
    found = self.on_devices.read_each(names)
    return [found[name] for name in names]

  def reset(self, variables: Iterable[tf.Variable]) -> None:
    """Sets local variables to zero on all devices."""
    arguments = [self._arguments[_name(self._store, variable)] for variable in variables]
    zeros = {each.name: np.zeros(each.shape, each.dtype) for each in arguments}
    self.on_devices.put(arguments, zeros)

  def _all_of(self, assigned):
    """Returns the host's values of all variables, after a program failed; raises if it lacks one.

    Local variables have values that any program may begin with.
    """
    if any(name in self._store.variables and name not in assigned for name in self._arguments):
      raise self.on_devices.error()
    return {name: self._variables[name].read_value() for name in self._arguments}

  def _assigned(self):
    """Returns the values that the host has assigned since the two were equal, by name."""
    found = {}
    for name in self._arguments:
      value = self._variables[name].read_value()
      equal = self._equal.get(name)
      if equal is None or _place(value) != _place(equal):
        found[name] = value
    return found

  def _compare(self, names):
    """Raises ModelFnError if the devices differ in a variable that is not a statistic."""
    equal = [name for name in names if not self._arguments[name].differs]
    for name, each in self.on_devices.read_each(equal).items():
      differ = (
        f"The variable {name} has other values on other cores: each core assigned its own. Make "
        "it a statistic (a float with trainable=False), or assign the mean over the cores "
        "(tf.distribute.get_replica_context().all_reduce)."
      )
      if not all(np.array_equal(each[0], other, equal_nan=True) for other in each[1:]):
        raise errors.ModelFnError(differ)
      if self.devices.is_shared:
        self._compare_hosts(hashlib.sha256(each[0].tobytes()).hexdigest(), differ)
    self._is_compared = True

  def _compare_hosts(self, digest, sentence):
    """Raises ModelFnError with a sentence if other hosts have another digest."""
    if any(other != digest for other in self.devices.exchange(digest)):
      raise errors.ModelFnError(sentence)


def argument(store: Any, handle: tf.Tensor, spec: tf.TensorSpec) -> pjrt_program.Argument:
  """Returns the argument of a program for a variable.

  Args:
    store: the VariableStore of the variable.
    handle: the variable's handle.
    spec: the spec of its value.

  Raises:
    ModelFnError: another program made the variable.
  """
  for variable in _all_variables(store):
    if variable.handle is handle:
      # A statistic differs between the devices, as between the replicas of other strategies.
      is_own = variable.synchronization == tf.VariableSynchronization.ON_READ
      role = pjrt_program.Role.OWN_VARIABLE if is_own else pjrt_program.Role.VARIABLE
      name = _name(store, variable)
      return pjrt_program.Argument(name, tuple(spec.shape.as_list()), spec.dtype.name, role)
  raise errors.ModelFnError(
    "A step uses a variable from outside of the model_fn: an XLA device has the model_fn's "
    "variables alone."
  )


def _all_variables(store):
  return (*store.variables.values(), *store.local_variables())


def _name(store, variable):
  name = variable.name.removesuffix(":0")
  # Local and saved variables may have the same name.
  return name if store.variables.get(name) is variable else f"/{name}"


def mean_of(values: np.ndarray) -> np.ndarray:
  """Returns the value on the host of a variable that each device has its own of.

  Args:
    values: [devices, ...].
  """
  # As tf.distribute does for a variable of floats, and for others.
  if values.dtype.kind in "biu":
    return values[0]
  # The sum of eight float16 may be infinite.
  wide = np.float32 if values.dtype.itemsize < 4 else values.dtype
  return values.mean(0, dtype=wide).astype(values.dtype)


def _place(tensor):
  """Returns the address of a tensor's memory. Tensor.numpy() would copy it."""
  if tensor.dtype.size < 4 and tensor.dtype.is_floating:  # of which a buffer may have no name
    tensor = tf.bitcast(tensor, tf.uint16 if tensor.dtype.size == 2 else tf.uint8)
  return np.asarray(memoryview(tensor)).__array_interface__["data"][0]
