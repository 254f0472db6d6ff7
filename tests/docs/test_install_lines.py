"""What README, docs, notebooks and messages say to install: Octet, by a way that works, with extras
that setup.py has."""

import json
import re

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests import declared
from trainer.cli import installation

ROOT = declared.ROOT
FOLDERS = (".github", "benchmarks", "deploy", "docs", "notebooks", "trainer")
KINDS = {".gin", ".ipynb", ".jinja", ".html", ".md", ".py", ".sbatch", ".yaml", ".yml"}

# Octet with extras: a clone or a distribution's name, and [names].
WITH_EXTRAS = re.compile(r"(?<![\w.\]])(\.|octet[\w-]*)\[([a-z][a-z,]*)\]")
COMMAND = re.compile(r"installation\.command\(['\"]([a-z,]+)['\"]\)")
PIP_INSTALL = re.compile(r"pip install ((?:-\S+ )*)(.+)")


def sources():
  for folder in FOLDERS:
    for path in sorted((ROOT / folder).rglob("*")):
      if path.suffix in KINDS:
        yield path
  yield from ROOT.glob("*.md")


def lines(path):
  """Yields the lines of a file; those of a notebook's cells are its sources."""
  text = path.read_text()
  if path.suffix == ".ipynb":
    text = "\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"])
  yield from text.splitlines()


def problems(line):
  """Yields what is wrong with the install commands of a line."""
  known = declared.arguments()["extras_require"]
  named = WITH_EXTRAS.findall(line)
  for name, _ in named:
    if name not in (".", installation.DISTRIBUTION):
      yield f"{name} is another author's package"
  for extras in [*(extras for _, extras in named), *COMMAND.findall(line)]:
    yield from (f"setup.py has no extra {name}" for name in extras.split(",") if name not in known)
  for _, arguments in PIP_INSTALL.findall(line):
    if re.match(r"[`'\"]*octet\b(?!-trainer)", arguments):
      yield f"{arguments} is another author's package"


def test_the_distribution_has_the_name_of_the_messages():
  assert declared.arguments()["name"] == installation.DISTRIBUTION


def test_install_lines():
  read = list(sources())
  assert len(read) > 300
  assert not [
    f"{path.relative_to(ROOT)}:{number}: {line.strip()}: {problem}"
    for path in read
    for number, line in enumerate(lines(path), 1)
    for problem in problems(line)
  ]


@pytest.mark.parametrize(
  ("line", "problem"),
  [
    ("pip install 'octet[cpu]'", "octet is another author's package"),
    ("pip install octet", "octet is another author's package"),
    ("brings `octet[cpu]`", "octet is another author's package"),
    ("{installation.command('gppu')}", "setup.py has no extra gppu"),
    ("pip install '.[gppu]'", "setup.py has no extra gppu"),
    ("pip install 'octet-trainer[cpu,tpus] @ git+https://host'", "setup.py has no extra tpus"),
  ],
)
def test_a_wrong_line_is_found(line, problem):
  assert problem in list(problems(line))


@pytest.mark.parametrize(
  "line", ["pip install -q -e '.[cpu,test]'", "pip install 'octet-trainer[cpu] @ git+https://host'"]
)
def test_a_right_line_is_not(line):
  assert not list(problems(line))


def test_the_name_is_a_valid_one():
  assert Requirement(f"{installation.DISTRIBUTION}[cpu]").extras == {"cpu"}
  assert canonicalize_name(installation.DISTRIBUTION) == installation.DISTRIBUTION


def test_readme_begins_with_the_clone():
  text = (ROOT / "README.md").read_text()
  assert text.index("git clone") < text.index("pip install")
