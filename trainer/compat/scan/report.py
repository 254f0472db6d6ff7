"""What is told of programs: a diff of their imports, a table of the names that they use."""

import collections
import difflib
import json

from trainer.compat.scan import imports, verdicts
from trainer.compat.scan.source import Source

_PLACES = 3  # of a name that the table shows
_OWN_PACKAGE = "trainer"
_ORDER = {verdicts.ABSENT: 0, verdicts.SHIM: 1, verdicts.WORKS: 2}


def diff(source: Source) -> str:
  """The changes of a file's imports, as a unified diff; "" for none."""
  new = imports.changed(source)
  path = str(source.path)
  return "".join(
    difflib.unified_diff(
      source.text.splitlines(keepends=True), new.splitlines(keepends=True), path, path
    )
  )


def rows(sources: list[Source]) -> list[dict[str, object]]:
  """A row for each name that is used, or imported and cannot work: what cannot work first."""
  places = collections.defaultdict(list)
  for source in sources:
    for use in source.uses:
      places[use.name].append(f"{source.path}:{use.line}")
    for one in source.imports:
      if one.target and verdicts.of(one.target).status == verdicts.ABSENT:
        place = f"{source.path}:{one.node.lineno}"
        if place not in places[one.target]:
          places[one.target].append(place)
  found = []
  for name in sorted(places):
    verdict = verdicts.of(name)
    found.append(
      {
        "name": name,
        "status": verdict.status,
        "where": verdict.where,
        "advice": verdict.advice,
        "places": places[name],
      }
    )
  return sorted([*_own_package(sources), *found], key=lambda row: _ORDER[row["status"]])


def _own_package(sources: list[Source]) -> list[dict[str, object]]:
  """A row where a program has a package `trainer`, as samples for Cloud ML do: in its folder,
  Python finds that one and not Octet.
  """
  there = {source.path.stem for source in sources if source.path.parent.name == "trainer"}
  places = [
    f"{source.path}:{line}"
    for source in sources
    for name, line in source.of_trainer.items()
    if name in there
  ]
  if not places:
    return []
  return [
    {
      "name": _OWN_PACKAGE,
      "status": verdicts.ABSENT,
      "where": "",
      "advice": "the program's own package has the name of Octet's, which it hides. Rename its "
      "folder, and it where it is imported and started (python -m trainer.task).",
      "places": places,
    }
  ]


def table(found: list[dict[str, object]]) -> str:
  """The rows as text."""
  lines = []
  for row in found:
    through = f" ({row['where']})" if row["status"] == verdicts.SHIM else ""
    places = row["places"]
    shown = ", ".join(places[:_PLACES]) + (
      f", ... ({len(places)})" if len(places) > _PLACES else ""
    )
    name = row["name"] if row["name"] == _OWN_PACKAGE else f"tf.{row['name']}"
    lines.append(f"{row['status']:<7} {name}{through}")
    lines.append(f"          {shown}")
    if row["advice"]:
      lines.append(f"          {row['advice']}")
  counts = collections.Counter(row["status"] for row in found)
  lines.append(
    f"{len(found)} names: {counts[verdicts.WORKS]} of TensorFlow, {counts[verdicts.SHIM]} of "
    f"trainer.compat.v1, {counts[verdicts.ABSENT]} that cannot work."
  )
  return "\n".join(lines)


def as_json(sources: list[Source], found: list[dict[str, object]]) -> str:
  """Both as JSON: {"names": [...], "diffs": {path: diff}}."""
  diffs = {str(source.path): text for source in sources if (text := diff(source))}
  return json.dumps({"names": found, "diffs": diffs}, indent=1)
