"""Every guide does what it says, and every link leads somewhere."""

import pathlib
import re

import pytest

from tests import warm
from tests.docs import guide

GUIDES = [guide.ROOT / "README.md", *sorted((guide.ROOT / "docs").glob("*.md"))]
RUN = [path for path in GUIDES[1:] if guide.blocks(path.read_text())]


# Guides that need an extra.
NEEDS = {
  "xla_programs": ("jax", "libtpu"),
  "serve": ("fastapi", "prometheus_client", "uvicorn"),
  "tutorial": ("fastapi", "prometheus_client", "uvicorn", "matplotlib"),
  "warm_start": ("safetensors",),
}


def run_guide(path, folder):
  """(exit code, what is printed)."""
  done = warm.run(guide.__file__, path, folder, timeout=280)
  return done.returncode, done.stdout + done.stderr


@pytest.mark.long  # the gate runs the README
@pytest.mark.parametrize("path", RUN, ids=lambda path: path.stem)
def test_a_guide_does_what_it_says(path, tmp_path):
  for module in NEEDS.get(path.stem, ()):
    pytest.importorskip(module)
  code, printed = run_guide(path, tmp_path)
  assert code == 0, printed


# What the README's first command does not need. Not jax: TensorFlow imports it by itself, where it
# is installed, for TensorFlow Lite.
UNUSED = (
  "ai_edge_litert", "cmaes", "fastapi", "libtpu", "mlflow", "optuna", "prometheus_client", "pynvml",
  "safetensors", "sqlalchemy", "tensorflow_datasets", "torch", "uvicorn", "wandb",
  "trainer.pjrt.execution", "trainer.preflight", "trainer.sweep",
)  # fmt: skip

# What the README leaves to its reader: an input_fn and an Estimator for its model_fn.
MINE = """
```python run
import trainer
from input_pipelines import digits
from models import mine

estimator = trainer.Estimator(mine.model_fn, "out/mine", trainer.RunConfig(device="cpu"), train_batch_size=32, eval_batch_size=120)
estimator.train(lambda params: digits.input_fn(params, training=True), max_steps=20)
print(estimator.evaluate(lambda params: digits.input_fn(params, split="test"))["global_step"])
print(len(list(estimator.predict(lambda params: digits.input_fn(params, split="test")))))
```

```text output
20
360
```
"""


def test_the_readme_does_what_it_says(tmp_path):
  text = (guide.ROOT / "README.md").read_text()
  install, run = re.search(r"```bash\n(.*?) &&\n(.*?)\n```", text, re.S).groups()
  assert "pip install" in install
  shown = re.search(r"you will see.*?\n```\n(.*?)```", text, re.S)[1]
  # Times differ between machines, and the last digits of a loss between kinds of CPU.
  shown = re.sub(
    r"[\d,.]+ (examples/s|ms/step)|\d+%|\d+ threads?|ETA \S+|\d{10}|(?<=loss )[= "
    r"]*[\d.]+|(?<=accuracy = 0.9)\d+",
    "...",
    shown,
  )
  shown = shown.replace("...\nstep 2000", "step 2000")  # the lines that the README leaves out
  path = tmp_path / "README.md"
  path.write_text(
    f"{text}\n```bash "
    f"run\n{run.replace('.venv/bin/python', 'python')}\n```\n\n```text "
    f"output\n{shown}```\n{MINE}"
  )
  code, printed = run_guide(path, tmp_path / "copy")
  assert code == 0, printed
  # The command trains, evaluates, exports and checks the export.
  imported = (tmp_path / "copy" / "trainer.main.modules").read_text().splitlines()
  assert "trainer.outputs.verification" in imported
  assert [name for name in UNUSED if name in imported] == []


def test_the_readme_has_two_commands():
  text = (guide.ROOT / "README.md").read_text()
  first, second = re.findall(r"```bash\n(.*?)```", text, re.S)
  assert "trainer.main" in first
  assert "pytest" in second.splitlines()[0]


def test_the_page_of_commands_has_every_command():
  entries = [*(guide.ROOT / "trainer").glob("*/__main__.py")]
  commands = {f"trainer.{path.parent.name}" for path in entries}
  for package in ("trainer", "octet_trainer", "input_pipelines"):
    for path in (guide.ROOT / package).glob("*.py"):
      if '__name__ == "__main__"' in path.read_text():
        commands.add(f"{package}.{path.stem}")
  assert {"trainer.main", "trainer.compat", "octet_trainer.run"} <= commands
  page = (guide.ROOT / "docs" / "commands.md").read_text()
  assert {name for name in commands if f"`python -m {name}`" not in page} == set()


def test_the_plan_of_the_house_names_files_that_are_there():
  plan = (guide.ROOT / "docs" / "architecture.md").read_text().partition("## A step")[0]
  names = re.findall(r"`(\w+\.py|\w+/)`", plan)
  folders = [guide.ROOT, guide.ROOT / "tests", guide.ROOT / "trainer"]
  folders += [path for path in folders[-1].rglob("*") if path.is_dir()]
  there = {path.name + "/" * path.is_dir() for folder in folders for path in folder.iterdir()}
  assert set(names) <= there


@pytest.mark.parametrize("path", GUIDES, ids=lambda path: path.stem)
def test_links_lead_to_files(path):
  targets = re.findall(r"\]\(([^)#]+)", path.read_text())
  missing = [
    target for target in targets if "://" not in target and not (path.parent / target).exists()
  ]
  assert not missing


@pytest.mark.parametrize("path", GUIDES, ids=lambda path: path.stem)
def test_prose_keeps_to_150_columns(path):
  """Tables and code have lines of their own length."""
  text = re.sub(r"^ *```.*?^ *```$", "", path.read_text(), flags=re.M | re.S)
  assert [line for line in text.splitlines() if len(line) > 150 and line[0] not in "|#<"] == []


def anchors(path):
  """The anchors that GitHub and the site give to the headings of a page."""
  titles = re.findall(
    r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.M | re.S), re.M
  )
  return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("path", [*GUIDES, guide.ROOT / "CHANGELOG.md"], ids=lambda path: path.stem)
def test_links_lead_to_headings(path):
  links = re.findall(r"\]\(([^)#:]*)#([^)]+)\)", path.read_text())
  missing = [
    (target, anchor)
    for target, anchor in links
    if anchor not in anchors(path.parent / target if target else path)
  ]
  assert not missing


def test_guides_that_run_are_found():
  assert {
    "bring_your_own_model",
    "bring_your_own_data",
    "evaluate_predict_export",
    "gin",
    "migrate_from_tpuestimator",
  } <= {path.stem for path in RUN}


def in_folder(text, tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  guide.run(text)


@pytest.mark.parametrize("output", ["one two\nthree", "one...\n...ee", "three"])
def test_output_as_the_guide_has_it(output, tmp_path, monkeypatch):
  in_folder(
    f"```bash run\necho one two\necho three\n```\n\n```text output\n{output}\n```\n",
    tmp_path,
    monkeypatch,
  )


@pytest.mark.parametrize("output", ["four", "three\none", "one...three"])
def test_other_output_fails(output, tmp_path, monkeypatch):
  with pytest.raises(AssertionError, match="expected the line"):
    in_folder(
      f"```bash run\necho one two\necho three\n```\n\n```text output\n{output}\n```\n",
      tmp_path,
      monkeypatch,
    )


@pytest.mark.parametrize(
  ("language", "line"),
  [
    ("bash", "ls nowhere"),
    ("bash", "python -m nowhere"),
    ("bash", "! python -m this"),
    ("python", "raise SystemExit(3)"),
  ],
)
def test_a_block_that_fails_is_shown(language, line, tmp_path):
  path = tmp_path / "guide.md"
  path.write_text(f"# A guide\n\n```{language} run\n{line}\n```\n")
  code, printed = run_guide(path, tmp_path / "copy")
  assert code == 1
  assert "left with" in printed
  assert line in printed


def test_files_are_written_and_unmarked_blocks_are_not_run(tmp_path, monkeypatch):
  in_folder("```gin a/b.gin\nx = 1\n```\n\n```bash\nexit 1\n```\n", tmp_path, monkeypatch)
  assert pathlib.Path("a/b.gin").read_text() == "x = 1\n"
