"""What the page of a sweep shows, and in which order."""

import re

import pytest

from tests.trainer.sweep import reports
from trainer.reporting import metrics_file
from trainer.sweep import page, trial


def rows(text):
  """The cells of the table of trials, row by row."""
  table = text[text.index("<h2>Trials</h2>") :]
  return [
    re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row) for row in re.findall("<tr>(.*?)</tr>", table)
  ]


def test_best_trials_come_first_and_those_without_value_last(tmp_path):
  trials = reports.Trials(["max"])
  trials.add(None, state="running")
  trials.add([0.2])
  trials.add([0.9], state="pruned")
  trials.add([0.7])
  found = rows(page.page(reports.of(trials), str(tmp_path)))
  assert [row[:2] for row in found[1:]] == [
    ["3", "complete"],
    ["1", "complete"],
    ["2", "pruned"],
    ["0", "running"],
  ]


def test_the_table_has_short_names_and_brief_numbers(tmp_path):
  found = reports.of_values(0.123456789, bindings=[{"a.b": "1e-05"}])
  header, row = rows(page.page(found, str(tmp_path)))
  assert header == ["trial", "state", "accuracy", "steps", "seconds", "b", "error"]
  assert row[:3] == ["0", "complete", "0.12346"]
  assert row[5] == "1e-05"


def test_numbers_are_aligned_and_parameters_are_not(tmp_path):
  text = page.page(reports.of_values(0.5), str(tmp_path))
  assert re.findall(r'<th class="number">(.*?)</th>', text) == [
    "trial",
    "accuracy",
    "steps",
    "seconds",
  ]


def test_the_goal_is_said_in_words(tmp_path):
  found = reports.of_values((0.5, 0.1), metrics=["accuracy", "loss"], modes=["max", "min"])
  text = page.page(found, str(tmp_path))
  assert "<p>1 complete; highest accuracy and lowest loss.</p>" in text


def test_the_best_is_given_as_a_gin_file(tmp_path):
  found = reports.of_values(0.1, 0.5, bindings=[{"a.b": "1"}, {"a.b": "'<2>'"}])
  (shown,) = re.findall("<pre>(.*?)</pre>", page.page(found, str(tmp_path)), re.DOTALL)
  assert shown.startswith("# Trial 1 of the sweep s: accuracy = 0.5.")
  assert "a.b = &#39;&lt;2&gt;&#39;" in shown


def write_metrics(sweep_dir, *numbers):
  for number in numbers:
    folder = sweep_dir / "trials" / str(number)
    folder.mkdir(parents=True)
    assert str(folder) == trial.folder(str(sweep_dir), number)
    metrics_file.append(folder, "eval", 5, {"accuracy": 0.5, "loss": 1.0, "recall": 0.5})


@pytest.fixture
def collected(monkeypatch):
  """The folders whose curves are drawn."""
  folders, collect = [], page.curves.collect

  def note(model_dirs):
    folders.extend(model_dirs)
    return collect(model_dirs)

  monkeypatch.setattr(page.curves, "collect", note)
  return folders


def test_curves_are_those_of_the_best_five(tmp_path, collected):
  write_metrics(tmp_path, *range(7))
  found = reports.of_values(0.0, 0.6, 0.1, 0.5, 0.4, 0.3, 0.2)
  text = page.page(found, str(tmp_path))
  assert collected == [trial.folder(str(tmp_path), number) for number in (1, 3, 4, 5, 6)]
  assert "Learning curves of the best 5 trials" in text
  assert re.findall('aria-label="(.*?)"', text) == ["loss by step", "accuracy by step"]


def test_trials_of_other_machines_have_no_curves(tmp_path, collected):
  write_metrics(tmp_path, 1)
  (tmp_path / "trials" / "0").mkdir()  # it has reported nothing yet
  text = page.page(reports.of_values(0.9, 0.6, 0.7), str(tmp_path))
  assert collected == [trial.folder(str(tmp_path), 1)]
  assert "Learning curves of the best 1 trials" in text


def test_without_a_folder_there_are_no_curves(tmp_path):
  assert "Learning curves" not in page.page(reports.of_values(0.9), str(tmp_path))
