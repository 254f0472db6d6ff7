"""python -m trainer.compat PATH...: what programs for TensorFlow 1 and 2.15 need to run on Octet.

Reads the Python files, without running them, and prints the changes of their imports as a diff, and
each name of TensorFlow that they use: whether it is TensorFlow's own, comes from trainer.compat.v1,
or cannot work. Leaves with 1 where a name cannot work.
"""

import os
import sys

from absl import flags

from trainer import command, errors

_WRITE = flags.DEFINE_bool("write", False, "Make the changes of the imports.")
_JSON = flags.DEFINE_bool("json", False, "Print JSON.")


def main(argv: list[str]) -> None:
  from trainer.compat.scan import imports, report, source, verdicts

  if len(argv) < 2:
    raise errors.SettingError(
      "Which programs? Give files or folders: python -m trainer.compat PATH"
    )
  sources = []
  for path in source.files(argv[1:]):
    try:
      sources.append(source.read(path))
    except (OSError, SyntaxError, UnicodeDecodeError) as error:
      raise errors.SettingError(f"{path} cannot be read as Python 3: {error}") from error
  found = report.rows(sources)
  if _JSON.value:
    told = report.as_json(sources, found) + "\n"
  else:
    told = "".join(map(report.diff, sources)) + report.table(found) + "\n"
  if _WRITE.value:  # before anything is told, for who reads it may stop: `... | head`
    for one in sources:
      changed = imports.changed(one)
      if changed != one.text:
        one.path.write_text(changed)
  _tell(told)
  sys.exit(any(row["status"] == verdicts.ABSENT for row in found))


def _tell(text: str) -> None:
  """Prints; a reader that wants no more of it is no error."""
  try:
    print(text, end="", flush=True)
  except BrokenPipeError:  # Python would say so once more when it ends, and flushes again
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
  command.run(main, positional=True)
