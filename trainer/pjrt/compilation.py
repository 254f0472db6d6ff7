"""Compiles programs for devices, or finds them compiled.

compiler = Compiler(connected, "out/compiled")
executable = compiler.compile(code, "train")  # compiles it, and writes its compiled form
executable = compiler.compile(code, "train")  # also in another process: loads this form
"""

import re

from absl import logging

from trainer import errors
from trainer.pjrt import compiled_forms, device_values, execution, jaxlib_internals, program
from trainer.pjrt import devices as devices_lib


class Compiler:
  """Compiles programs, and says how long it took or where the compiled form was.

  Args:
    connected: the devices.
    folder: of compiled forms, see `compiled_forms`; "" for none. A program that it lacks is
      compiled and added. One that is damaged, or that jaxlib refuses, is written anew.
  """

  def __init__(self, connected: devices_lib.Devices, folder: str = "") -> None:
    self._connected = connected
    self._forms = compiled_forms.CompiledForms(folder) if folder else None

  def compile(self, code: program.Program, name: str) -> execution.Executable:
    """Returns the executable of a program.

    Args:
      code: the program.
      name: of the program, for what is logged.

    Raises:
      SettingError, ExecutionError: see `execution.Executable`.
    """
    if self._forms is None:
      executable = execution.Executable(code, self._connected)
      logging.info("Compiled the program of %s in %.1f s.", name, executable.compile_seconds)
      return executable
    program_digest = digest(code)
    executable, why = self._load(code, program_digest, name)
    if executable is not None:
      logging.info(
        "Found the program of %s compiled in %s, and did not compile it: loaded in %.2f s.",
        name,
        self._forms.folder,
        executable.compile_seconds,
      )
      return executable
    executable = execution.Executable(code, self._connected)
    seconds = executable.compile_seconds
    logging.info("Compiled the program of %s in %.1f s: %s.", name, seconds, why)
    self._add(executable, program_digest)
    return executable

  def _load(self, code, program_digest, name):
    """Returns (executable, why): the executable, or None and why there is none."""
    try:
      form, why = self._forms.find(program_digest, self._connected.key)
      if form is None:
        return None, why
      return execution.Executable(code, self._connected, form), ""
    except (errors.FileDamagedError, device_values.ExecutionError) as error:
      why = f"the compiled form in {self._forms.folder} cannot be used"
      logging.warning("The program of %s is compiled anew, since %s: %s", name, why, error)
      return None, why

  def _add(self, executable, program_digest):
    try:
      self._forms.add(program_digest, self._connected.key, executable.serialize())
    except errors.OutputError as error:
      # The training needs no compiled form, and the folder may be one that others fill.
      logging.warning("The compiled program is not kept (--compiled): %s", error)


def digest(code: program.Program) -> str:
  """Returns the digest of what the compiler makes of a program.

  Where the code comes from and the names of its functions are left out: TensorFlow numbers
  functions in the order in which a process makes them.
  """
  names: dict[str, str] = {}

  def number(found):
    return names.setdefault(found[0], f"@{len(names)}")

  text = re.sub(r'@("[^"]*"|[\w$.-]+)', number, jaxlib_internals.text_of_stablehlo(code.code))
  return compiled_forms.digest(f"{text}\n{code.aliases}\n{code.replicas}".encode())
