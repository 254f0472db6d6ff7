"""The command that installs one of Octet's extras, for error messages.

No release of Octet is on a package index yet, and the name `octet` there is another author's. A
message therefore never names the index unless Octet itself came from one.
"""

import importlib.metadata
import json
import os
import pathlib
import urllib.parse
import urllib.request
from collections.abc import Callable

DISTRIBUTION = "octet-trainer"

_ROOT = pathlib.Path(__file__).resolve().parents[2]


def command(
  extras: str,
  *,
  root: pathlib.Path = _ROOT,
  distribution: Callable[[str], importlib.metadata.Distribution] = importlib.metadata.distribution,
) -> str:
  """Returns the shell command that adds extras to this installation of Octet.

  Args:
    extras: names of extras, separated by commas, such as "cpu,sweep".
    root: the folder with the package `trainer`.
    distribution: returns an installed distribution by its name.

  Returns:
    A command that takes Octet from where it is now: the clone, the folder, the file or the
    repository that pip recorded (PEP 610), or else the package index.
  """
  origin = _origin(distribution)
  folder = root if (root / "setup.py").is_file() else None
  if "dir_info" in origin:
    folder = folder or pathlib.Path(
      urllib.request.url2pathname(urllib.parse.urlparse(origin["url"]).path)
    )
  if folder is not None:
    editable = "-e " * bool(origin.get("dir_info", {}).get("editable"))
    # A copied command works in any folder; "." is shorter where it means the same.
    where = "." if folder.resolve() == pathlib.Path(os.getcwd()).resolve() else folder
    return f"pip install {editable}'{where}[{extras}]'"
  if "vcs_info" in origin:
    revision = origin["vcs_info"].get("requested_revision")
    address = f"{origin['vcs_info']['vcs']}+{origin['url']}" + (f"@{revision}" if revision else "")
    return f"pip install '{DISTRIBUTION}[{extras}] @ {address}'"
  if "url" in origin:  # a wheel or an archive
    return f"pip install '{DISTRIBUTION}[{extras}] @ {origin['url']}'"
  return f"pip install '{DISTRIBUTION}[{extras}]'"


def _origin(distribution):
  """Returns Octet's origin as pip recorded it; {} for a clone or a package index."""
  try:
    recorded = distribution(DISTRIBUTION).read_text("direct_url.json")
  except importlib.metadata.PackageNotFoundError:
    return {}
  return json.loads(recorded) if recorded else {}
