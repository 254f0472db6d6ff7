"""What git says of a folder: the commit, what is changed, and no more than that."""

import os
import subprocess

import pytest

from trainer.reporting import working_tree


@pytest.fixture
def repository(tmp_path):
  """A folder with one commit of model.py and .env."""
  (tmp_path / "model.py").write_text("units = 1\n")
  (tmp_path / ".env").write_text("TOKEN=first\n")
  git(tmp_path, "init", "-q")
  git(tmp_path, "add", ".")
  git(tmp_path, "-c", "user.name=A", "-c", "user.email=a@b", "commit", "-qm", "first")
  return tmp_path


def git(folder, *words):
  done = subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True)
  return done.stdout.strip()


def test_an_unchanged_tree_has_its_commit_alone(repository):
  commit = git(repository, "rev-parse", "HEAD")
  assert working_tree.describe(str(repository)) == {"commit": commit, "changed": 0}


def test_changes_and_new_code_are_reported_and_env_files_not(repository):
  (repository / "model.py").write_text("units = 2\n")
  (repository / ".env").write_text("TOKEN=geheim\n")
  (repository / "new.gin").write_text("a = 1")
  (repository / "data.csv").write_text("1,2")
  found = working_tree.describe(str(repository))
  assert found["changed"] == 1
  assert "+units = 2" in found["diff"]
  assert "geheim" not in found["diff"]
  assert found["untracked"] == "new.gin"


def test_a_long_diff_is_cut_off(repository):
  (repository / "model.py").write_text("x = 'ä'\n" * 20_000)
  diff = working_tree.describe(str(repository))["diff"]
  assert len(diff.encode()) < working_tree.LONGEST_DIFF + 100
  assert diff.endswith("bytes in all)\n")


def test_outside_of_a_repository_there_is_nothing_to_tell(tmp_path, monkeypatch):
  monkeypatch.setenv("GIT_CEILING_DIRECTORIES", os.fspath(tmp_path.parent))
  assert working_tree.describe(str(tmp_path)) == {}
  monkeypatch.setenv("PATH", "")
  assert working_tree.describe(str(tmp_path)) == {}


def test_git_that_does_not_answer_is_not_waited_for(repository, monkeypatch, caplog):
  def run(*args, timeout, **kwargs):
    raise subprocess.TimeoutExpired("git", timeout)

  monkeypatch.setattr(subprocess, "run", run)
  assert working_tree.describe(str(repository)) == {}
  assert "git has not answered within 10 s" in caplog.text
