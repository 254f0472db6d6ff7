"""The page of flags has every flag of every command, with its current help."""

import re

from docs.tools import flags
from tests.docs import guide

TRAINER = guide.ROOT / "trainer"


def test_the_page_is_current():
  """Otherwise: python -m docs.tools.flags"""
  assert flags.PAGE.read_text() == flags.page()


def test_every_flag_of_a_command_is_on_the_page():
  page = flags.page()
  for command, path in flags.COMMANDS.items():
    defined = re.findall(r'flags\.DEFINE_\w+\(\s*"(\w+)"', (guide.ROOT / path).read_text())
    section = page.partition(f"## python -m {command}\n")[2].partition("\n## ")[0]
    assert [name for name in defined if f"| `--{name}` |" not in section] == []


def test_flags_of_several_commands_are_in_each_section():
  page = flags.page()
  for command in ("main", "sweep"):
    section = page.partition(f"## python -m trainer.{command}\n")[2].partition("\n## ")[0]
    assert all(f"| `--{name}` |" in section for name in ("gin_file", "device", "seed"))


def test_no_file_defines_flags_that_the_page_does_not_read():
  files = {path for path in TRAINER.rglob("*.py") if "flags.DEFINE" in path.read_text()}
  others = files - {guide.ROOT / path for path in flags.COMMANDS.values()}
  assert {path.name for path in others} == {  # --debug, and flags that commands share
    *("command.py", "engine_flags.py", "gin_flags.py", "run_flags.py", "sweep_flags.py")
  }


def test_the_page_of_commands_has_the_same_commands():
  page = flags.PAGE.read_text()
  listed = re.findall(r"`python -m ([\w.]+)`", page.partition("\n## ")[0])
  assert [name for name in flags.COMMANDS if name not in listed] == []
