"""Compiles programs for devices, or finds them compiled.

compiler = Compiler(connected, "out/compiled")
executable = compiler.compile(source, "train")  # compiles it, and writes its compiled form
executable = compiler.compile(source, "train")  # also in another process: loads this form
"""

from absl import logging

from trainer import errors
from trainer.pjrt import compiled_forms, device_values, execution, program
from trainer.pjrt import devices as devices_lib


class Compiler:
  """Compiles programs, and logs the time, or the place of the compiled form.

  Args:
    connected: the devices.
    folder: of compiled forms, see `compiled_forms.in_folder`; "" for none. The run compiles and
      adds a missing program. It writes a damaged form, or one that jaxlib refuses, again.
  """

  def __init__(self, connected: devices_lib.Devices, folder: str = "") -> None:
    self._connected = connected
    self._forms = compiled_forms.in_folder(folder) if folder else None

  def prepare(self, source: program.Source) -> None:
    """Lowers a program without a compiled form, so that lowering errors appear now.

    Raises:
      The errors of source.lower.
    """
    if self._forms is None or not self._forms.has(source.digest, self._key(source)):
      source.lower()

  def compile(self, source: program.Source, name: str) -> execution.Executable:
    """Returns the executable of a program.

    Args:
      source: the program's source.
      name: the program's name in the log.

    Raises:
      SettingError, ExecutionError: see `execution.Executable`.
      The errors of source.lower.
    """
    if self._forms is None:
      return self._compile(source, name, "")
    executable, why = self._load(source, name)
    if executable is not None:
      logging.info(
        "Found the program of %s compiled in %s, and loaded it in %.2f s.",
        name,
        self._forms.folder,
        executable.compile_seconds,
      )
      return executable
    executable = self._compile(source, name, f": {why}")
    try:
      self._forms.add(source.digest, self._key(source), executable.serialize())
    except errors.OutputError as error:
      # Only a warning: the training needs no compiled form, and others may fill the folder.
      logging.warning("Cannot keep the compiled program (--compiled): %s", error)
    return executable

  def _compile(self, source, name, why):
    executable = execution.Executable(source.lower(), self._connected)
    logging.info("Compiled the program of %s in %.1f s%s.", name, executable.compile_seconds, why)
    return executable

  def _load(self, source, name):
    """Returns (executable, why): the executable, or None and why there is none."""
    try:
      form, why = self._forms.find(source.digest, self._key(source))
      if form is None:
        return None, why
      return execution.Executable(source.signature, self._connected, form), ""
    except (errors.FileDamagedError, device_values.ExecutionError) as error:
      why = f"the compiled form in {self._forms.folder} is unusable"
      logging.warning("Compiling the program of %s again, since %s: %s", name, why, error)
      return None, why

  def _key(self, source):
    return {**self._connected.key, **source.versions}
