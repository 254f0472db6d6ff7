import json

import pytest

from tests import warm
from trainer import errors
from trainer.pjrt import installed
from trainer.preflight import compiler, topology


def preflight(*arguments):
  return warm.run("-m", "trainer.preflight", *arguments, timeout=280)


def test_unknown_topology_gives_the_list():
  result = preflight("--gin_file=gin_configs/digits.gin", "--topology=v9-8")
  assert result.returncode == 2
  assert "v2-8, 32, 128" in result.stderr


def test_no_gin_file():
  result = preflight()
  assert result.returncode == 2
  assert "--gin_file" in result.stderr


def test_help_lists_the_flags():
  assert "--topology" in preflight("--help").stdout


def test_missing_libtpu_is_one_sentence(monkeypatch):
  def require(platform):
    raise errors.VersionError("libtpu is not installed.")

  monkeypatch.setattr(installed, "require", require)
  with pytest.raises(errors.VersionError, match="libtpu is not installed. libtpu comes from Goo"):
    compiler.require_extra([topology.find("v3-8")])
  with pytest.raises(errors.VersionError, match="^libtpu is not installed.$"):
    compiler.require_extra([topology.find("xla:8")])


@pytest.mark.preflight
def test_an_experiment_from_its_gin_file(tmp_path):
  path = tmp_path / "report.json"
  result = preflight(
    "--gin_file=gin_configs/digits.gin",
    "--topology=v2-8",
    "--steps=train",
    f"--json={path}",
    f"--html={tmp_path}/report.html",
  )
  assert result.returncode == 0, result.stderr
  assert "train on v2-8" in result.stdout
  (report,) = json.loads(path.read_text())
  assert report["passed"]
  assert report["all_reduces"]["bytes"] == report["all_reduces"]["trainable_bytes"]
  assert (tmp_path / "report.html").exists()
