"""What git says of the code that a run is made of: its commit, and what is changed beside it.

    working_tree.describe(os.getcwd())
    # {"commit": "9be2...", "changed": 1, "diff": "diff --git ...", "untracked": "models/new.py"}

Nothing is read but what git tracks, and the names of code that it does not track.
"""

import os
import subprocess
from collections.abc import Sequence

from absl import logging

LONGEST_DIFF = 100_000  # bytes
_SECONDS = 10.0  # that git may take
_CODE = (".py", ".gin")
_PLAIN = ("--no-ext-diff", "--no-color", "--no-textconv")
# All of the repository but files of environment variables, which hold passwords.
_TREE = (":(top)", ":(top,exclude,glob)**/.env*")


def describe(folder: str) -> dict[str, str | int]:
  """Returns what is there to tell of a folder; {} if it is in no repository of git.

  Returns:
    "commit": the commit that is checked out. "changed": 1 if tracked files differ from it or there
    is code that git does not track, else 0. "diff": the differences, where there are some, cut off
    after LONGEST_DIFF bytes. "untracked": the names of such code, a line each.
  """
  commit = _git(folder, "rev-parse", "--verify", "HEAD")
  diff = _git(folder, "diff", "HEAD", *_PLAIN, "--", *_TREE)
  names = _git(folder, "ls-files", "--others", "--exclude-standard")
  if commit is None or diff is None or names is None:
    return {}
  untracked = "\n".join(name for name in names.splitlines() if name.endswith(_CODE))
  found: dict[str, str | int] = {"commit": commit.strip(), "changed": int(bool(diff or untracked))}
  found |= {
    key: _cut(text) for key, text in (("diff", diff), ("untracked", untracked)) if text.strip()
  }
  return found


def _git(folder: str, *words: str) -> str | None:
  """Returns what git prints; None where there is no git, no repository or no answer in time."""
  try:
    done = subprocess.run(
      _command(folder, words),
      capture_output=True,
      timeout=_SECONDS,
      check=False,
      # git would otherwise take a lock to note what it has seen.
      env={**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"},
    )
  except OSError:
    return None
  except subprocess.TimeoutExpired:
    logging.warning(
      "git has not answered within %.0f s: environment.json does not tell the commit.", _SECONDS
    )
    return None
  return done.stdout.decode(errors="replace") if done.returncode == 0 else None


def _command(folder: str, words: Sequence[str]) -> list[str]:
  return ["git", "-C", folder, "-c", "core.fsmonitor=false", *words]


def _cut(text):
  data = text.encode()
  if len(data) <= LONGEST_DIFF:
    return text
  kept = data[:LONGEST_DIFF].decode(errors="ignore")
  return f"{kept}\n(cut off: {len(data):,} bytes in all)\n"
