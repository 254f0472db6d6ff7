"""python -m trainer.compat PATH...: checks whether programs for TensorFlow 1 and 2.15 run on Octet.

Reads the Python files without running them. Prints the changes of their imports as a diff, and
whether each program means names of TensorFlow 1 or 2 by a plain `tensorflow`. For each name, prints
its source: TensorFlow, trainer.compat, or nothing.
The exit status is 1 if a name cannot work, if the names that a program means are unclear, if a file
is no Python 3, if a package is not installed, or if a program does what Octet refuses (a line
`fed`, `session`, `keras2`, `own` or `older`).
"""

import itertools
import os
import sys

from absl import flags

from trainer import errors
from trainer.cli import command

_WRITE = flags.DEFINE_bool("write", False, "Write the changed imports to the files.")
_JSON = flags.DEFINE_bool("json", False, "Print JSON.")
_API = flags.DEFINE_enum(
  "api",
  None,
  ["v1", "v2"],
  "The names that `import tensorflow` means: TensorFlow 1's or TensorFlow 2's. Default: found "
  "for each program.",
)


def main(argv: list[str]) -> None:
  from trainer.compat.scan import apis, imports, modules, refused, report, source, verdicts

  if len(argv) < 2:
    raise errors.SettingError(
      "Which programs? Give files or folders: python -m trainer.compat PATH"
    )
  sources, unread = [], {}
  for path in source.files(argv[1:]):
    try:
      sources.append(source.read(path))
    except OSError as error:
      unread[str(path)] = f"not readable: {error.strerror}"
    except (SyntaxError, ValueError) as error:  # ValueError: not in its encoding, or with zeros
      unread[str(path)] = f"not Python 3: {error}"
  if not sources:
    told = [f"{path} is {why}" for path, why in unread.items()]
    raise errors.SettingError(told[0] if told else f"There is no .py file in {argv[1]}.")
  programs = apis.programs(sources, _API.value)
  sources = [one for program in programs for one in program.sources]
  found = report.rows(programs)
  missing = modules.missing(sources)
  refusals = refused.found(programs)
  refused_lines = [*itertools.chain(*refusals.values())]
  diffs = report.diffs(programs)
  if _WRITE.value:  # flush before printing, because the reader may stop: `... | head`
    for program in programs:
      for one in program.sources:
        changed = imports.changed(one, program.api)
        if changed != one.text:
          one.path.write_bytes(changed.encode(one.encoding))
  if _JSON.value:
    more = dict(diffs=diffs, unread=unread, missing=missing)
    told = report.as_json(programs, found, {**more, **refusals}) + "\n"
  else:
    lines = [f"unread  {path}, not changed: {why}" for path, why in unread.items()]
    lines += [*report.choices(programs), report.table(found), *report.own_trainers(programs)]
    lines += [*refused_lines, *report.not_installed(missing, programs)]
    told = "".join(diffs.values()) + "".join(f"{line}\n" for line in lines)
  _tell(told)
  is_unsure = any(program.api is None for program in programs)
  is_absent = any(row["status"] == verdicts.ABSENT for row in found)
  sys.exit(any([unread, is_unsure, is_absent, missing, refused_lines]))


def _tell(text: str) -> None:
  """Prints text. A reader that stops early (a closed pipe) is no error."""
  try:
    print(text, end="", flush=True)
  except BrokenPipeError:  # Python flushes again at its end, and would report the closed pipe again
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
  command.run(main, positional=True)
