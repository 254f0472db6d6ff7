"""Every guide does what it says, and every link leads somewhere."""

import pathlib
import re
import subprocess
import sys

import pytest

from tests.docs import guide

GUIDES = [guide.ROOT / "README.md", *sorted((guide.ROOT / "docs").glob("*.md"))]
RUN = [path for path in GUIDES if guide.blocks(path.read_text())]


def run_guide(path, folder):
  command = [sys.executable, guide.__file__, path, folder]
  return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=200, check=False)


@pytest.mark.parametrize("path", RUN, ids=lambda path: path.stem)
def test_a_guide_does_what_it_says(path, tmp_path):
  done = run_guide(path, tmp_path)
  assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("path", GUIDES, ids=lambda path: path.stem)
def test_links_lead_to_files(path):
  targets = re.findall(r"\]\(([^)#]+)", path.read_text())
  missing = [target for target in targets if "://" not in target and not (path.parent / target).exists()]
  assert not missing


def test_guides_that_run_are_found():
  assert {"README", "bring_your_own_model", "evaluate_predict_export", "gin", "migrate_from_tpuestimator"} <= {path.stem for path in RUN}


def in_folder(text, tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  guide.run(text)


@pytest.mark.parametrize("output", ["one two\nthree", "one...\n...ee", "three"])
def test_output_as_the_guide_has_it(output, tmp_path, monkeypatch):
  in_folder(f"```bash run\necho one two\necho three\n```\n\n```text output\n{output}\n```\n", tmp_path, monkeypatch)


@pytest.mark.parametrize("output", ["four", "three\none", "one...three"])
def test_other_output_fails(output, tmp_path, monkeypatch):
  with pytest.raises(AssertionError, match="expected the line"):
    in_folder(f"```bash run\necho one two\necho three\n```\n\n```text output\n{output}\n```\n", tmp_path, monkeypatch)


@pytest.mark.parametrize("block", ["```bash run\nls nowhere\n```\n", "```python run\nraise SystemExit(3)\n```\n", "```bash run\npython -m nowhere\n```\n"])
def test_a_block_that_fails_is_shown(block, tmp_path):
  path = tmp_path / "guide.md"
  path.write_text(f"# A guide\n\n{block}")
  done = run_guide(path, tmp_path / "copy")
  assert done.returncode == 1
  assert "left with" in done.stdout and block.splitlines()[1] in done.stdout


def test_files_are_written_and_blocks_without_a_mark_are_left_alone(tmp_path, monkeypatch):
  in_folder("```gin a/b.gin\nx = 1\n```\n\n```bash\nexit 1\n```\n", tmp_path, monkeypatch)
  assert pathlib.Path("a/b.gin").read_text() == "x = 1\n"
