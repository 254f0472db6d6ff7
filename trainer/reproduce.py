"""Lists the differences between a run's environment and this one, and the command that repeats it.

  python -m trainer.reproduce out/digits --into=out/again

It reads environment.json of the run. It compares the code by the commit, and by digests of the
modules that the run had imported. The command of a run of `trainer.main` takes its config.gin, so
gin files may have changed since; for the same bits, code and packages must equal the run's.
"""

import os
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from absl import flags

from trainer import errors
from trainer.cli import command
from trainer.reporting import environment

_INTO = flags.DEFINE_string(
  "into", None, "The --model_dir of the repeated run. Default: <folder of the run>-again."
)
_MAIN = "trainer.main"
# config.gin replaces these.
_GIN_FLAGS = ("gin_file", "gin_bindings")
_VERSIONS = ("octet", "tensorflow", "keras", "python", "machine")
_MOST_PACKAGES = 20  # In the list of differences.


def main(argv: list[str]) -> None:
  """Prints the differences and the command.

  Args:
    argv: the program's name, and the folder of the run.
  """
  if len(argv) != 2:
    raise errors.SettingError(
      "Give the folder of one run. Try: python -m trainer.reproduce out/digits"
    )
  model_dir = argv[1].rstrip("/")
  into = _INTO.value or f"{model_dir}-again"
  records = environment.read(model_dir)
  if not records:
    raise errors.SettingError(
      f"{model_dir} has no {environment.NAME}: is it the --model_dir of a trained run?"
    )
  modules = environment.digests(records[0].get("modules", ()))
  found = list(differences(records[0], {**here(), "modules": modules}))
  # Without git nothing tells whether a file of Octet itself changed.
  code = "Code" if "commit" in records[0] else "Octet's version, the run's own modules"
  print("\n".join(found or [f"{code}, packages and machine equal the run's."]))
  print(f"\n{shlex.join(repeated(records[0]['command'], model_dir, into))}")


def here() -> dict[str, Any]:
  """Returns a record of this environment, in the form of environment.json."""
  from trainer.devices import device
  from trainer.run_config import RunConfig

  return environment.describe(device.connect("cpu"), RunConfig())


def differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
  """Yields a line for each difference between two records of environment.json.

  Args:
    then: the record of the run.
    now: the record of this environment.
  """
  if "packages" not in then:
    yield "The run has recorded neither its commit nor its packages: an earlier Octet wrote it."
  elif not {"commit", "modules"} & then.keys():
    yield "The run has recorded nothing of its code: an earlier Octet wrote it, outside of git."
  for key in _VERSIONS:
    if then.get(key) != now.get(key):
      yield f"{key}: {then.get(key)} then, {now.get(key)} now"
  if then.get("commit") != now.get("commit"):
    yield f"commit: {then.get('commit', 'none')} then, {now.get('commit', 'none')} now"
  for key, what in (("diff", "changes beside the commit"), ("untracked", "code beside git")):
    if then.get(key, "") != now.get(key, ""):
      told = [
        "none" if not record.get(key) else f"{len(record[key].splitlines()):,} lines"
        for record in (then, now)
      ]
      yield f"{what}: {told[0]} then, {told[1]} now ({environment.NAME} has the run's)"
  modules = now.get("modules", {})
  for path, digest in then.get("modules", {}).items():
    if modules.get(path) != digest:
      yield f"{path}: {'other code now' if path in modules else 'absent now'}"
  packages = then.get("packages", {}), now.get("packages", {})
  names = sorted(set(packages[0]) | set(packages[1])) if packages[0] else []
  other = [name for name in names if packages[0].get(name) != packages[1].get(name)]
  for name in other[:_MOST_PACKAGES]:
    yield f"{name}: {packages[0].get(name, 'absent')} then, {packages[1].get(name, 'absent')} now"
  if other[_MOST_PACKAGES:]:
    yield f"and {len(other) - _MOST_PACKAGES} more packages"


def repeated(line: str, model_dir: str, into: str) -> list[str]:
  """Returns the words of a command that repeats a run in another folder.

  Args:
    line: the command of the run.
    model_dir: the folder of the run.
    into: the folder of the repeated run.

  Raises:
    SettingError: the command has no --model_dir to replace.
  """
  words = shlex.split(line)
  is_main = words[1:3] == ["-m", _MAIN]
  kept, given = [], False
  rest = iter(words)
  for word in rest:
    name, has_value, _ = word.lstrip("-").partition("=")
    is_flag = word.startswith("-")
    if is_flag and name == "model_dir":
      given = True
    elif not (is_flag and is_main and name in _GIN_FLAGS):
      kept.append(word)
      continue
    if not has_value:
      next(rest, None)  # The value is a word of its own.
  if not given:
    raise errors.SettingError(
      f"The command of {model_dir} has no --model_dir, so that it would write to the same folder: "
      f"repeat it by hand: {line}"
    )
  config = [f"--gin_file={os.path.join(model_dir, 'config.gin')}"] if is_main else []
  place = 3 if is_main else len(kept)
  return [*kept[:place], *config, f"--model_dir={into}", *kept[place:]]


if __name__ == "__main__":
  command.run(main, positional=True)
