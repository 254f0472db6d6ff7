"""What is told of a sweep, while it runs and after."""

import csv
import re
import shlex
import xml.dom.minidom

import pytest

from tests.trainer.sweep import programs, reports
from trainer import errors
from trainer.config import files
from trainer.sweep import page, report, study, trial

TRIALS = 6


def made(folder, text=programs.SPACE, values=lambda number: [number / 10], definition=()):
  """A Study whose first trials are complete, but for one that was ended early, one that failed
  and one that runs.
  """
  settings = programs.settings(folder, text)
  whole = {
    **settings.definition(),
    "gin_file": ["gin_configs/digits.gin"],
    "gin_bindings": ["run.eval_steps = 1"],
    "precision": "float32",
    **dict(definition),
  }
  found = study.Study.open(study.url_for(folder), "s", settings, whole)
  found.make_trials(TRIALS + 4)
  for number in range(TRIALS + 3):
    one = found.claim(TRIALS + 4)
    run = trial.Run(one, settings, str(folder), [])
    run.prepare()
    programs.evaluate(run.model_dir, 5, 0.1)
    if len(settings.metrics) == 1:
      one.report(0.99 if number >= TRIALS else values(number)[0], 5)
    one.set_user_attr("steps", 5)
    if number == TRIALS:
      found.finish(one, "pruned")
    elif number == TRIALS + 1:
      one.set_user_attr("error", "It ended with exit code 2. Its last lines:\nfirst\nlast <words>")
      found.finish(one, "fail")
    elif number < TRIALS:
      found.finish(one, "complete", values(number))
  return found


def read(folder):
  return report.Report(*study.Study.read(study.url_for(folder), "s"))


def test_the_table_the_file_and_the_best(tmp_path, capsys):
  made(tmp_path)
  found = read(tmp_path)
  assert found.counts() == {"complete": 6, "pruned": 1, "failed": 1, "running": 1, "waiting": 1}
  assert [one.number for one in found.best()] == [5]
  found.print_table()
  printed = capsys.readouterr().out
  assert "6 complete, 1 pruned, 1 failed, 1 running, 1 waiting" in printed
  assert printed.index("5  complete") < printed.index("4  complete") < printed.index("6  pruned")
  assert "last <words>" in printed
  found.write_csv(str(tmp_path / "trials.csv"))
  rows = list(csv.DictReader(open(tmp_path / "trials.csv", newline="")))  # noqa: SIM115
  assert [row["state"] for row in rows] == ["complete"] * 6 + [
    "pruned",
    "failed",
    "running",
    "waiting",
  ]
  assert rows[5]["accuracy"] == "0.5"
  assert rows[5]["experiment.kind"] in ("'a'", "'b'")
  assert 0 <= float(rows[5]["experiment.x"]) <= 1
  assert rows[9]["experiment.x"] == ""


def test_the_best_bindings_are_a_gin_file(tmp_path):
  made(
    tmp_path,
    programs.SPACE + "sweep.bindings = {'run.train_steps': 7}",
    definition={"precision": "bfloat16", "seed": 3},
  )
  found = read(tmp_path)
  (path,) = found.write_bindings(str(tmp_path))
  assert path == str(tmp_path / "best.gin")
  file = files.read(path)  # of trials without a configuration of their own
  assert file.statements[0].name == "gin_configs/digits.gin"
  bound = {f"{one.selector}.{one.arg_name}": one.value for one in file.statements[1:]}
  x = float(
    dict(binding.split(" = ") for binding in found.best()[0].user_attrs["bindings"])["experiment.x"]
  )
  assert bound["run.eval_steps"] == 1
  assert bound["run.train_steps"] == 7
  assert bound["experiment.x"] == x
  assert (
    "accuracy = 0.5. Its flags were --precision=bfloat16 --seed=3."
    in (tmp_path / "best.gin").read_text()
  )


def test_the_best_is_whole_by_itself_and_says_how_to_run_it(tmp_path, monkeypatch):
  folder = tmp_path / "a sweep"
  folder.mkdir()
  made(folder, definition={"seed": 3})
  best = folder / "trials" / "5"
  (best / "config.gin").write_text("import models.digits_mlp\nrun.train_steps = 7\n")
  (best / "command.txt").write_text(
    "python -m trainer.main --gin_file=a.gin --model_dir=x '--gin_bindings=run.train_steps = 7' "
    "--gin_modules=.,mine --precision=bfloat16 --seed=3\n"
  )
  (path,) = read(folder).write_bindings(str(folder))
  text = (folder / "best.gin").read_text()
  assert "include" not in text
  assert text.endswith("run.train_steps = 7\n\nRunConfig.tf_random_seed = 3\n")
  (command,) = re.findall("^#   (.*)", text, re.MULTILINE)
  assert shlex.split(command) == [
    "python",
    "-m",
    "trainer.main",
    f"--gin_file={path}",
    f"--model_dir={folder}/best",
    "--gin_modules=.,mine",
    "--precision=bfloat16",
    "--seed=3",
  ]
  monkeypatch.chdir(tmp_path)
  values = [statement.value for statement in files.read(path).statements[1:]]
  assert values == [7, 3]


def test_of_several_metrics_all_that_nothing_beats_are_best(tmp_path):
  text = programs.SPACE.replace("'accuracy'", "['accuracy', 'loss']").replace(
    "'max'", "['max', 'min']"
  )
  made(
    tmp_path,
    text,
    values=lambda number: [[0.1, 0.1], [0.5, 0.2], [0.4, 0.3], [0.9, 0.9], [0.2, 0.5], [0.1, 0.2]][
      number
    ],
  )
  found = read(tmp_path)
  assert [one.number for one in found.best()] == [0, 1, 3]
  assert [path[-10:] for path in found.write_bindings(str(tmp_path))] == [
    "best_0.gin",
    "best_1.gin",
    "best_3.gin",
  ]


def test_the_page_needs_nothing_else_and_shows_everything(tmp_path):
  made(tmp_path)
  text = page.page(read(tmp_path), str(tmp_path))
  for label in ("accuracy by step", "loss by step"):
    assert f'aria-label="{label}"' in text
  assert "last &lt;words&gt;" in text
  assert not re.search(r'<script.*src|src="http|href="http|url\(http', text)
  for svg in re.findall(r"<svg.*?</svg>", text, re.DOTALL):
    xml.dom.minidom.parseString(svg)
  ids = re.findall(r'\bid="([^"]*)"', text)
  used = set(re.findall(r'(?:href="#|url\(#)([^")]*)', text))
  assert used <= set(ids)


def test_a_sweep_that_has_just_begun(tmp_path, capsys):
  settings = programs.settings(tmp_path)
  study.Study.open(
    study.url_for(tmp_path),
    "s",
    settings,
    {**settings.definition(), "gin_file": [], "gin_bindings": []},
  ).make_trials(3)
  found = read(tmp_path)
  found.print_table()
  assert "no trial has a value yet" in capsys.readouterr().out
  assert found.write_bindings(str(tmp_path)) == []
  assert "3 waiting" in page.page(found, str(tmp_path))


def test_database_without_tables_is_left_unchanged(tmp_path):
  (tmp_path / "sweep.db").touch()
  with pytest.raises(errors.SettingError, match="There is no sweep in .* yet"):
    read(tmp_path)
  assert (tmp_path / "sweep.db").read_bytes() == b""


def test_no_sweep_there(tmp_path):
  with pytest.raises(errors.SettingError, match="There is no sweep.*--sweep_dir"):
    read(tmp_path)
  assert list(tmp_path.iterdir()) == []


def test_who_breaks_a_constraint_is_not_the_best(tmp_path):
  trials = reports.Trials(["max"])
  trials.add([0.9], attributes={"constraints": {"loss <= 0.5": 0.1}})
  trials.add([0.8], attributes={"constraints": {"loss <= 0.5": -0.1}})
  trials.add([0.7], attributes={"constraints": {"loss <= 0.5": 0.0}})
  found = reports.of(trials, more={"constraints": ["loss <= 0.5"]})
  assert [trial.number for trial in found.ranked()] == [1, 2, 0]
  assert [trial.number for trial in found.best()] == [1]
  header, rows = found.rows(found.trials)
  assert [row[header.index("breaks")] for row in rows] == ["loss <= 0.5", "", ""]
  assert [row[header.index("error")] for row in rows] == ["", "", ""]


def test_a_metric_that_constraints_alone_name_has_a_column(tmp_path, capsys):
  trials = reports.Trials(["max"])
  trials.add([0.9], {"a.b": "1"}, attributes={"constrained": {"accuracy": 0.9, "loss": 0.625}})
  trials.add([0.8], {"a.b": "2"}, state="running")
  bounds = {"constraints": ["loss <= 0.5", "loss >= 0.1", "accuracy >= 0.5"]}
  found = reports.of(trials, more=bounds)
  header, rows = found.rows(found.trials)
  assert header[2:5] == ["accuracy", "loss", "breaks"]
  assert [row[2:4] for row in rows] == [[0.9, 0.625], [0.8, ""]]
  found.print_table()
  assert "0.625" in capsys.readouterr().out
  assert "0.625" in page.page(found, str(tmp_path))
  seeds = reports.of(trials, more={**bounds, "seeds": [1, 2]})
  assert seeds.columns == ["accuracy", "accuracy low", "accuracy high", "loss"]


def test_each_trial_is_one_line_of_the_table(capsys):
  trials, keys = reports.Trials(["max"]), [f"model_fn.parameter_of_the_model_{n}" for n in range(8)]
  trials.add([0.9], dict.fromkeys(keys, "0.125"))
  reports.of(trials, space={key: {"kind": "Uniform"} for key in keys}).print_table()
  *_, header, last = capsys.readouterr().out.splitlines()
  assert [key.split(".")[1] in header for key in keys] == [True] * 8
  assert last.count("0.125") == 8


def test_trials_that_break_a_constraint_beat_no_other_trial():
  trials = reports.Trials(["max", "min"])
  trials.add([0.9, 0.1], attributes={"constraints": {"loss <= 0.5": 0.1}})
  trials.add([0.8, 0.2], attributes={"constraints": {"loss <= 0.5": 0.0}})
  trials.add([0.8, 0.3], attributes={"constraints": {"loss <= 0.5": 0.0}})
  trials.add([0.8, 0.2], attributes={"constraints": {"loss <= 0.5": 0.0}})
  found = reports.of(trials, ["accuracy", "loss"], ["max", "min"])
  assert [trial.number for trial in found.best()] == [1, 3]


def test_several_seeds_show_the_interval_of_the_mean(tmp_path):
  trials = reports.Trials(["max"])
  trials.add([0.9], {"a.b": "1"}, attributes={"intervals": {"accuracy": [0.85, 0.95]}})
  trials.add([0.8], {"a.b": "2"}, state="running")
  found = reports.of(trials, more={"seeds": [1, 2]})
  header, rows = found.rows(found.trials)
  assert header[2:5] == ["accuracy", "accuracy low", "accuracy high"]
  assert [row[2:5] for row in rows] == [[0.9, 0.85, 0.95], [0.8, "", ""]]
  assert "accuracy = 0.9 (0.85 to 0.95 over the seeds)" in found.gin(found.trials[0])
  assert found.folder("out", found.trials[0]) == "out/trials/0/seed_1"
  assert "0.95" in page.page(found, str(tmp_path))
