"""A run keeps its compiled programs in a folder, and the next one finds them: --compiled."""

import pytest

from tests.trainer import programs
from trainer import errors, testing
from trainer.pjrt import installed


def is_pjrt_installed():
  try:
    installed.require()
  except errors.VersionError:
    return False
  return True


@pytest.mark.skipif(not is_pjrt_installed(), reason="jax is not installed")
def test_a_run_that_finds_its_programs_does_not_compile_them(tmp_path, caplog, monkeypatch):
  def run(name, steps):
    caplog.clear()
    with caplog.at_level("INFO", logger="absl"):
      estimator = programs.estimator(
        tmp_path / name, device="xla:8", compiled=str(tmp_path / "compiled"), train_steps=8
      )
      estimator.train(programs.train_input, max_steps=steps)
      metrics = steps == 8 and estimator.evaluate(programs.train_input, steps=3)
    logged = [record.getMessage() for record in caplog.records]
    found = [line for line in logged if line.startswith("Found the program of")]
    compiled = [line for line in logged if line.startswith("Compiled the program of")]
    return testing.values(estimator), metrics, len(found), len(compiled)

  values, metrics, found, compiled = run("one", 8)
  assert (found, compiled) == (0, 2)

  from trainer.pjrt import jaxlib_internals

  monkeypatch.setattr(jaxlib_internals, "compile_for", None)
  run("parts", 3)
  again, same_metrics, found, compiled = run("parts", 8)
  assert (found, compiled) == (2, 0)
  testing.assert_same_values(values, again)
  assert metrics == same_metrics


@pytest.mark.skipif(not is_pjrt_installed(), reason="jax is not installed")
def test_a_run_fills_a_cache_by_itself(tmp_path, caplog, monkeypatch):
  """Where a form of other versions is reported and compiled again."""
  from trainer.programs import graph_digest

  monkeypatch.setenv("OCTET_CACHE", str(tmp_path / "cache"))

  def train(name, device="xla:8"):
    caplog.clear()
    with caplog.at_level("INFO", logger="absl"):
      programs.estimator(tmp_path / name, device=device).train(programs.train_input, max_steps=3)
    found = [record.getMessage() for record in caplog.records if "the program of" in record.msg]
    return [line.split(" the program")[0] for line in found]

  assert train("one") == ["Compiled"]
  assert train("two") == ["Found"]
  assert train("three", "cpu") == []
  assert len(list((tmp_path / "cache" / "compiled").iterdir())) == 1

  own = graph_digest.versions()
  monkeypatch.setattr(graph_digest, "versions", lambda: {**own, "tensorflow": "2.99"})
  assert train("four") == ["Compiled"]
  said = "the compiled form is for another tensorflow "
  assert said + f"({own['tensorflow']}, here 2.99)" in caplog.text
  assert train("five") == ["Found"]


def test_only_xla_devices_have_compiled_programs(tmp_path):
  with pytest.raises(
    errors.SettingError, match="--compiled=out keeps programs for XLA devices.*cpu"
  ):
    programs.estimator(tmp_path, device="cpu", compiled="out")


@pytest.mark.skipif(not is_pjrt_installed(), reason="jax is not installed")
@pytest.mark.parametrize(
  "folder, why", [("gs://bucket/compiled", "is a URL"), (__file__, "is a file; expected a folder")]
)
def test_the_folder_is_one_of_this_machine(tmp_path, folder, why):
  with pytest.raises(errors.SettingError, match=f"--compiled={folder}.*{why}"):
    programs.estimator(tmp_path, device="xla:8", compiled=folder)
