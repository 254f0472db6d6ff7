"""Asks git for the commit of a run's code, and for the changes since that commit.

    working_tree.describe(os.getcwd())
    # {"commit": "9be2...", "changed": 1, "diff": "diff --git ...", "untracked": "models/new.py"}

It reads only the contents of tracked files, and the names of code files that git does not track.
"""

import os
import subprocess

from absl import logging

LONGEST_DIFF = 100_000  # Bytes.
_SECONDS = 10.0  # git's time limit.
_CODE = (".py", ".gin")
_PLAIN = ("--no-ext-diff", "--no-color", "--no-textconv")
# The repository without .env files, since they hold passwords.
_TREE = (":(top)", ":(top,exclude,glob)**/.env*")


def describe(folder: str) -> dict[str, str | int]:
  """Describes the state of a folder's repository; returns {} outside of a git repository.

  Returns:
    "commit": the checked-out commit. "changed": 1 if tracked files differ from the commit or if
    there are code files that git does not track, otherwise 0. "diff": the differences, if any, cut
    off after LONGEST_DIFF bytes. "untracked": the names of such code files, one a line.
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
  """Returns git's output; None without git, without a repository, or after the time limit."""
  try:
    done = subprocess.run(
      ["git", "-C", folder, "-c", "core.fsmonitor=false", *words],
      capture_output=True,
      timeout=_SECONDS,
      check=False,
      # Without this, `git diff` takes the index lock, and a git command of the user may then fail.
      env={**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"},
    )
  except OSError:
    return None
  except subprocess.TimeoutExpired:
    logging.warning(
      "git has not answered within %.0f s: environment.json lacks the commit.", _SECONDS
    )
    return None
  return done.stdout.decode(errors="replace") if done.returncode == 0 else None


def _cut(text):
  data = text.encode()
  if len(data) <= LONGEST_DIFF:
    return text
  kept = data[:LONGEST_DIFF].decode(errors="ignore")
  return f"{kept}\n(cut off: {len(data):,} bytes in all)\n"
