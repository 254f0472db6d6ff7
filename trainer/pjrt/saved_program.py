"""A program in a folder that runs with jax alone.

    saved_program.write("out/program", program, values, inputs)
    saved = saved_program.read("out/program")
    saved.program, saved.values, saved.inputs, saved.expected

| file                  | content                                                                  |
|-----------------------|--------------------------------------------------------------------------|
| program.json          | arguments, results, replicas, versions, and the checksum of each file    |
| program.stablehlo     | the code, a portable artifact                                            |
| values.npz            | if there are any: a value for each variable and scalar                   |
| inputs.npz            | if there are any: a value for each input, [replicas, ...]                |
| expected.npz          | if known: the variables and results of the first run                     |
| compiled/             | compiled forms of the program, see `compiled_forms`                      |

The folder, and each compiled form that a run adds, appears completely or not at all. A compiled
form is machine code: run a program only if you trust the author of its folder.
"""

import dataclasses
import io
import os
import pathlib
import shutil
from collections.abc import Mapping

import numpy as np

from trainer import __version__, errors
from trainer.io import json_form
from trainer.pjrt import compiled_forms, program

_FORMAT = 1
_PROGRAM, _CODE = "program.json", "program.stablehlo"
_ARRAYS = ("values", "inputs", "expected")
_REMEDY = "save the program again"

_FORM = {
  "format": int,
  "replicas": int,
  "arguments": list[dict],
  "results": list[dict],
  "versions": dict[str, str],
  "files": dict[str, str],
}


@dataclasses.dataclass(frozen=True)
class SavedProgram:
  """The content of a folder.

  Attributes:
    folder: the folder.
    program: the program.
    versions: of Octet and of the tools that made the program.
    values: of variables and scalars, by name, in the form of `program.whole_shape`; {} if none.
    inputs: of the inputs; {} if none.
    expected: the results of the first run; {} if unknown. A variable has the form of values,
      another result [replicas, ...].
  """

  folder: pathlib.Path
  program: program.Program
  versions: dict[str, str]
  values: dict[str, np.ndarray]
  inputs: dict[str, np.ndarray]
  expected: dict[str, np.ndarray]

  def compiled_for(self, key: Mapping[str, str]) -> tuple[bytes | None, str]:
    """Looks for a compiled form.

    Returns:
      (form, why): the form, or None and why there is no usable form.

    Raises:
      FileDamagedError: the form is damaged.
    """
    return self._compiled.find(self._digest, key)

  def add_compiled(self, key: Mapping[str, str], form: bytes) -> None:
    """Adds a compiled form to the folder.

    Raises:
      OutputError: it cannot write the form.
    """
    self._compiled.add(self._digest, key, form)

  @property
  def _compiled(self):
    return compiled_forms.CompiledForms(self.folder / "compiled")

  @property
  def _digest(self):
    return compiled_forms.digest(self.program.code)


def write(
  folder: str | os.PathLike,
  what: program.Program,
  *,
  values: Mapping[str, np.ndarray] | None = None,
  inputs: Mapping[str, np.ndarray] | None = None,
  expected: Mapping[str, np.ndarray] | None = None,
  versions: Mapping[str, str] | None = None,
) -> SavedProgram:
  """Writes a program.

  Args:
    folder: must not exist yet.
    what: the program.
    values: see SavedProgram.
    inputs: see SavedProgram.
    expected: see SavedProgram.
    versions: of the tools that made the program; the function adds Octet's.

  Raises:
    SettingError: the folder exists, or a value does not fit the program.
    OutputError: it cannot write the program.
  """
  folder = pathlib.Path(folder)
  if folder.exists():
    raise errors.SettingError(f"{folder} is there already: give another name, or remove it.")
  given = dict(zip(_ARRAYS, (values, inputs, expected), strict=True))
  kept = {name: dict(arrays) for name, arrays in given.items() if arrays}
  _check(what, kept, "The given values")
  files = {_CODE: what.code}
  files |= {f"{name}.npz": _npz(arrays) for name, arrays in kept.items()}
  versions = {"octet": __version__, **(versions or {})}
  record = {
    "format": _FORMAT,
    "replicas": what.replicas,
    "arguments": [dataclasses.asdict(argument) for argument in what.arguments],
    "results": [dataclasses.asdict(result) for result in what.results],
    "versions": versions,
    "files": {name: compiled_forms.digest(content) for name, content in files.items()},
  }
  files[_PROGRAM] = json_form.dump(record).encode()
  aside = folder.with_name(f"{folder.name}.writing-{os.getpid()}")
  try:
    aside.mkdir(parents=True)
    for name, content in files.items():
      (aside / name).write_bytes(content)
    aside.rename(folder)
  except OSError as error:
    shutil.rmtree(aside, ignore_errors=True)
    raise errors.OutputError(f"Cannot write {folder}: {error.strerror}") from error
  return SavedProgram(folder, what, versions, **{name: kept.get(name, {}) for name in _ARRAYS})


def read(folder: str | os.PathLike) -> SavedProgram:
  """Reads a program.

  Raises:
    SettingError: the folder has no program, or a program of a later Octet.
    FileDamagedError: a file of the folder is missing, cut short or changed.
  """
  folder = pathlib.Path(folder)
  path = str(folder / _PROGRAM)
  # The format first: a later one may have another form.
  record = json_form.read(path, {"format": int, ...: object}, _REMEDY)
  if record is None:
    raise errors.SettingError(f"{folder} has no saved program: there is no {path}.")
  if record["format"] != _FORMAT:
    raise errors.SettingError(
      f"{folder} has a program of format {record['format']}, and this Octet reads format "
      f"{_FORMAT}: {_REMEDY}, or take the Octet that wrote it."
    )
  record = json_form.read(path, _FORM, _REMEDY)
  files = {name: _checked(folder / name, sha, _REMEDY) for name, sha in record["files"].items()}
  try:
    made = program.Program(
      files[_CODE],
      tuple(
        program.Argument(**_spec(each), role=program.Role(each["role"]))
        for each in record["arguments"]
      ),
      tuple(program.Result(**_spec(each), updates=each["updates"]) for each in record["results"]),
      record["replicas"],
    )
  except (KeyError, ValueError, TypeError) as error:
    raise errors.FileDamagedError(f"{path} is damaged ({error}): {_REMEDY}.") from error
  kept = {
    name: _arrays(folder / f"{name}.npz", files[f"{name}.npz"], made)
    for name in _ARRAYS
    if f"{name}.npz" in files
  }
  _check(made, kept, str(folder))
  return SavedProgram(
    folder, made, record["versions"], **{name: kept.get(name, {}) for name in _ARRAYS}
  )


def _spec(record):
  return {"name": record["name"], "shape": tuple(record["shape"]), "dtype": record["dtype"]}


def _check(what, kept, source):
  """Checks that values and inputs fit the program."""
  if "values" in kept:
    scalars = what.of_roles(program.Role.SCALAR)
    program.check_values((*what.variables, *scalars), what.replicas, kept["values"], source)
  if "inputs" in kept:
    inputs = what.of_roles(program.Role.INPUT)
    program.check_values(inputs, what.replicas, kept["inputs"], source)


def _npz(arrays):
  file = io.BytesIO()
  # Without compression: it is slow and saves little for weights. The arrays get numbers, and their
  # names are one more array, because a name may be an argument of np.savez.
  names = np.array(list(arrays))
  np.savez(file, names, *(np.asarray(array) for array in arrays.values()))
  return file.getvalue()


def _arrays(path, content, what):
  """Returns the arrays of a file, by name."""
  dtypes = {each.name: each.dtype for each in (*what.results, *what.arguments)}
  try:
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
      names = file["arr_0"].tolist()
      arrays = {name: file[f"arr_{index}"] for index, name in enumerate(names, 1)}
  except (OSError, KeyError, ValueError, EOFError) as error:
    raise errors.FileDamagedError(f"{path} is damaged ({error}): {_REMEDY}.") from error
  # numpy knows bfloat16 in a file only by its size.
  return {
    name: array.view(np.dtype(dtypes.get(name, "V"))) if array.dtype.kind == "V" else array
    for name, array in arrays.items()
  }


def _checked(path, sha256, remedy):
  """Returns the content of a file with a checksum."""
  try:
    content = path.read_bytes()
  except OSError as error:
    raise errors.FileDamagedError(f"Cannot read {path} ({error.strerror}): {remedy}.") from error
  if compiled_forms.digest(content) != sha256:
    raise errors.FileDamagedError(
      f"{path} is damaged (its content does not have its checksum): {remedy}."
    )
  return content
