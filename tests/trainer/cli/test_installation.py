"""The command that installs an extra, for each place that Octet can have come from."""

import importlib.metadata
import json

import pytest

from trainer.cli import installation


class Distribution:
  def __init__(self, origin):
    self.origin = origin

  def read_text(self, name):
    assert name == "direct_url.json"
    return self.origin and json.dumps(self.origin)


def absent(name):
  raise importlib.metadata.PackageNotFoundError(name)


def recorded(origin):
  def distribution(name):
    assert name == "octet-trainer"
    return Distribution(origin)

  return distribution


@pytest.fixture(name="clone")
def make_clone(tmp_path):
  (tmp_path / "setup.py").write_text("")
  return tmp_path


def test_a_clone_that_is_not_installed(clone):
  command = installation.command("cpu", root=clone, distribution=absent)
  assert command == f"pip install '{clone}[cpu]'"


def test_a_clone_that_is_the_working_directory(clone, monkeypatch):
  monkeypatch.chdir(clone)
  command = installation.command("cpu,sweep", root=clone, distribution=absent)
  assert command == "pip install '.[cpu,sweep]'"


def test_an_editable_clone_stays_editable(clone):
  origin = {"url": f"file://{clone}", "dir_info": {"editable": True}}
  command = installation.command("cpu", root=clone, distribution=recorded(origin))
  assert command == f"pip install -e '{clone}[cpu]'"


@pytest.mark.parametrize(
  ("origin", "command"),
  [
    ({"url": "file:///home/a%20b/octet", "dir_info": {}}, "pip install '/home/a b/octet[gpu]'"),
    (
      {"url": "https://host/octet.git", "vcs_info": {"vcs": "git", "commit_id": "c0ffee"}},
      "pip install 'octet-trainer[gpu] @ git+https://host/octet.git'",
    ),
    (
      {
        "url": "https://host/octet.git",
        "vcs_info": {"vcs": "git", "requested_revision": "v1", "commit_id": "c0ffee"},
      },
      "pip install 'octet-trainer[gpu] @ git+https://host/octet.git@v1'",
    ),
    (
      {"url": "file:///tmp/octet_trainer-1.0-py3-none-any.whl", "archive_info": {}},
      "pip install 'octet-trainer[gpu] @ file:///tmp/octet_trainer-1.0-py3-none-any.whl'",
    ),
    (None, "pip install 'octet-trainer[gpu]'"),  # pip records nothing for a package index
  ],
)
def test_installed_from(origin, command, tmp_path):
  assert installation.command("gpu", root=tmp_path, distribution=recorded(origin)) == command
