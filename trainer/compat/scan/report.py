"""The report about programs: a diff of their imports, and a table of their names."""

import collections
import difflib
import json
import pathlib
from collections.abc import Iterator

from trainer.compat.scan import imports, verdicts
from trainer.compat.scan.apis import Program
from trainer.compat.scan.source import INSIDE, PLAIN, V1, V2, Source

_PLACES = 3  # of a name in the table, and of a program's evidence
_OWN = "trainer"
_ORDER = {verdicts.ABSENT: 0, verdicts.SHIM: 1, verdicts.WORKS: 2}


def diff(source: Source, api: str | None = V1) -> str:
  """Returns the changes of a file's imports as a unified diff; "" for none.

  Args:
    api: see imports.changed.
  """
  texts = source.text, imports.changed(source, api)
  path = str(source.path)
  lines = difflib.unified_diff(*map(imports.lines_of, texts), path, path)
  no_end = "\n\\ No newline at end of file\n"
  return "".join(line if line.endswith("\n") else line + no_end for line in lines)


def diffs(programs: list[Program]) -> dict[str, str]:
  """Returns path → diff of each file that changes."""
  return {
    str(source.path): text
    for program in programs
    for source in program.sources
    if (text := diff(source, program.api))
  }


def rows(programs: list[Program]) -> list[dict[str, object]]:
  """Returns a row for each used name, and each imported one that cannot work; failures first."""
  places: dict[tuple[str, str], list[str]] = collections.defaultdict(list)
  for program in programs:
    for source in program.sources:
      for use in source.uses:
        key = use.name, _package(use.name, use.api, program.api)
        places[key].append(f"{source.path}:{use.line}")
      for one in source.imports:
        if not one.target or one.name == "*":  # a star's names have their own rows
          continue
        api = _package(one.target, one.api, program.api)
        place = f"{source.path}:{one.node.lineno}"
        is_absent = verdicts.of(one.target, api).status == verdicts.ABSENT
        if is_absent and place not in places[one.target, api]:
          places[one.target, api].append(place)
  found = []
  for name, api in sorted(key for key in places if places[key]):
    verdict = verdicts.of(name, api)
    found.append(
      {
        "name": name,
        "api": api,
        "status": verdict.status,
        "where": verdict.where,
        "advice": verdict.advice,
        "places": places[name, api],
      }
    )
  return sorted(found, key=lambda row: _ORDER[row["status"]])


def _package(name: str, api: str, of_program: str | None) -> str:
  """Returns the package of a name; if unknown, a package that has the name."""
  if api != PLAIN or of_program is not None:
    return api if api != PLAIN else str(of_program)
  return V1 if verdicts.of(name, V1).status != verdicts.ABSENT else V2


def choices(programs: list[Program]) -> Iterator[str]:
  """Returns a paragraph for each program with a plain `tensorflow`: its version, with evidence."""
  for program in programs:
    files = [str(source.path) for source in program.sources if source.is_plain]
    if not files:
      continue
    named = ", ".join(files[:_PLACES]) + (f" and {len(files) - 3} more" if files[3:] else "")
    if program.api is None:
      yield f"unsure  {named}: not changed. It is unclear which names `tensorflow` means:"
      for api in (V1, V2, PLAIN):
        yield from _shown(program, api)
      yield "          Choose with --api=v1 (names of TensorFlow 1) or --api=v2 (of TensorFlow 2)."
    else:
      why = "--api says so" if program.is_given else ""
      if not why and not program.of(program.api):
        why = "nothing in it differs between TensorFlow 1 and 2"
      yield f"{program.api}      {named}" + (f": {why}" if why else "")
      if not program.is_given:
        yield from _shown(program, program.api)


def _shown(program: Program, api: str) -> Iterator[str]:
  evidence = program.of(api)
  yield from (f"          {one}" for one in evidence[:_PLACES])
  if evidence[_PLACES:]:
    yield f"          ... ({len(evidence)} such lines)"


def own_trainers(programs: list[Program]) -> Iterator[str]:
  """Returns a line for each module or package `trainer` of a program that hides Octet's."""
  paths = [source.path.absolute() for program in programs for source in program.sources]
  scripts = {
    source.path.absolute().parent
    for program in programs
    for source in program.sources
    if source.is_script
  }
  packages = [parent.parent for path in paths for parent in path.parents if parent.name == _OWN]
  for folder in dict.fromkeys([*(path.parent for path in paths), *packages]):
    own = next(filter(pathlib.Path.exists, (folder / f"{_OWN}.py", folder / _OWN)), None)
    # Inside a package, the name is `package.trainer`, unless a script starts there.
    is_inner = (folder / "__init__.py").exists() and folder not in scripts
    if own is None or is_inner or (folder / _OWN / "compat" / "scan").is_dir():
      continue
    how = "FILE" if own.suffix else f"-m {_OWN}.MODULE"
    yield (
      f"run     {own} has the name of Octet's package. Start programs of this folder with "
      f"`python -m octet_trainer.run {how}` instead of `python {how}`."
    )


def not_installed(missing: dict[str, list[str]], programs: list[Program]) -> Iterator[str]:
  """A line for each package of modules.missing."""
  paths = [source.path for program in programs for source in program.sources]
  for package, places in missing.items():
    shown = ", ".join(places[:_PLACES]) + (f", ... ({len(places)})" if places[_PLACES:] else "")
    why = "is neither installed here nor among the files"
    for path in paths:
      named = [one for one in (path.with_suffix(""), *path.parents) if one.name == package]
      if named:
        why = f"is not installed here. To use {named[0]}, put {named[0].parent} on PYTHONPATH"
        break
    yield f"missing {package} {why}: {shown}"


def table(found: list[dict[str, object]]) -> str:
  """Returns the rows as text."""
  lines = []
  for row in found:
    through = f" ({row['where']})" if row["status"] == verdicts.SHIM else ""
    places = row["places"]
    shown = ", ".join(places[:_PLACES]) + (
      f", ... ({len(places)})" if len(places) > _PLACES else ""
    )
    prefix = "" if row["api"] == INSIDE else "tf."
    lines.append(f"{row['status']:<7} {prefix}{row['name']}{through}")
    lines.append(f"          {shown}")
    if row["advice"]:
      lines.append(f"          {row['advice']}")
  counts = collections.Counter(row["status"] for row in found)
  lines.append(
    f"{len(found)} names: {counts[verdicts.WORKS]} of TensorFlow, {counts[verdicts.SHIM]} of "
    f"trainer.compat, {counts[verdicts.ABSENT]} that cannot work."
  )
  return "\n".join(lines)


def as_json(
  programs: list[Program], found: list[dict[str, object]], more: dict[str, object]
) -> str:
  """All as JSON: {"programs": [...], "names": [...], "diffs": {path: diff}, "unread": {path: why},
  "own_trainers": [...], "missing": {package: [place, ...]}},
  and the lines of refused.found.

  Args:
    more: "diffs" and the other keys besides "programs", "names" and "own_trainers".
  """
  told = [
    {
      "files": [str(source.path) for source in program.sources],
      "api": program.api,
      "why": [str(one) for one in program.evidence if program.api in (None, one.api)],
    }
    for program in programs
    if any(source.is_plain for source in program.sources)
  ]
  own = [*own_trainers(programs)]
  return json.dumps({"programs": told, "names": found, "own_trainers": own, **more}, indent=1)
