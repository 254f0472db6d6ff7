"""The report of a run: what is on the page, by its structure."""

import base64
import html.parser
import json
import math
import re

import pytest

from tests.trainer import programs
from trainer.plot import curves, run_report
from trainer.reporting import environment, metrics_file

PNG = b"\x89PNG\r\n\x1a\n of the examples"


class Page(html.parser.HTMLParser):
  """Headings, tables (lists of rows of texts), what is referred to, and whether all elements
  are closed.
  """

  _VOID = ("meta", "img")

  def __init__(self, text):
    super().__init__()
    self.headings, self.tables, self.references, self.open = [], [], [], []
    self.feed(text)
    self.close()

  def handle_starttag(self, tag, attrs):
    self.references += [
      value for name, value in attrs if name.split(":")[-1] in ("href", "src", "action")
    ]
    if tag == "table":
      self.tables.append([])
    elif tag == "tr":
      self.tables[-1].append([])
    elif tag in ("td", "th"):
      self.tables[-1][-1].append("")
    elif tag in ("h1", "h2"):
      self.headings.append("")
    if tag not in self._VOID:
      self.open.append(tag)

  def handle_endtag(self, tag):
    assert self.open.pop() == tag

  def handle_data(self, data):
    if self.open and self.open[-1] in ("td", "th"):
      self.tables[-1][-1][-1] += data
    elif self.open and self.open[-1] in ("h1", "h2"):
      self.headings[-1] += data


def write(model_dir):
  """(text, Page) of the report of a run."""
  text = run_report.page(str(model_dir), curves.collect([model_dir]))
  page = Page(text)
  assert page.open == []
  return text, page


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
  """A run in all modes, as a page."""
  model_dir = tmp_path_factory.mktemp("runs") / "line <1>"
  settings = dict(
    model_fn=programs.line,
    train_input_fn=programs.train_input,
    eval_input_fn=programs.examples(11),
    train_steps=4,
    train_batch_size=8,
    eval_batch_size=8,
    device="cpu",
    model_dir=str(model_dir),
  )
  told = {"commit": "abc", "changed": 1, "diff": "+a < b", "packages": {"keras": "3.15"}}
  with pytest.MonkeyPatch.context() as patch:  # the tests' own tree may hold anything
    patch.setattr(environment, "here", lambda: told)
    programs.run_experiment(mode="train_and_evaluate", **settings)
  programs.run_experiment(mode="predict", **settings)
  (model_dir / "predictions-4.png").write_bytes(PNG)
  return model_dir, *write(model_dir)


def test_long_values_of_the_environment_are_folded_away(finished):
  _, text, page = finished
  assert "<summary>Changes beside the commit</summary><pre>+a &lt; b</pre>" in text
  assert "<summary>Installed packages</summary><pre>keras 3.15</pre>" in text
  assert ["commit", "abc"] in [row for table in page.tables for row in table]


@pytest.fixture
def bare(tmp_path):
  """A run that has come to its first reports."""
  model_dir = tmp_path / "run"
  model_dir.mkdir()
  for step, loss, speed in ((10, 0.5, 1000.0), (20, math.nan, 20_000.0), (30, 0.25, 30_000.0)):
    metrics_file.append(
      model_dir,
      "train",
      step,
      {"loss": loss, "examples_per_second": speed, "steps_per_second": speed / 10},
      clock=lambda: 86400.0,
    )
  return model_dir


def tiles(text):
  return dict(re.findall(r"<div><span>([^<]*)</span><b>([^<]*)</b></div>", text))


def test_results_first_then_all_the_rest(finished):
  _, _, page = finished
  assert page.headings == [
    "line <1>",
    "Curves",
    "Predictions at step 4",
    "Environment",
    "Configuration",
  ]


def test_the_results_are_those_of_the_last_evaluation_and_report(finished):
  model_dir, text, _ = finished
  lines = {line["kind"]: line for line in metrics_file.read(model_dir)}
  found = tiles(text)
  assert list(found)[:4] == [
    "absolute_error, eval",
    "loss, eval",
    "loss, train",
    "learning rate, train",
  ]
  assert found["loss, eval"] == f"{lines['eval']['loss']:.5g}"
  assert found["loss, train"] == f"{lines['train']['loss']:.5g}"


def test_the_page_needs_nothing_else(finished):
  _, text, page = finished
  assert {
    reference.partition(",")[0] for reference in page.references if not reference.startswith("#")
  } == {"data:image/png;base64"}
  assert re.findall(r"<(script|link|iframe|object)\b|@import|url\((?!#)", text) == []
  addresses = set(re.findall(r"https?://[^\s\"<]+", text))
  # Names, not links.
  assert {address.split("/")[2] for address in addresses} <= {
    "www.w3.org",
    "purl.org",
    "creativecommons.org",
    "matplotlib.org",
  }


def test_it_fits_dark_pages_and_narrow_ones(finished):
  _, text, _ = finished
  assert "prefers-color-scheme: dark" in text
  assert 'name="viewport"' in text
  assert text.count('<div class="table"><table>') == text.count("<table>")  # each scrolls by itself


def test_every_metric_has_a_panel(finished):
  _, text, _ = finished
  assert re.findall(r'<figure><svg[^>]* aria-label="(.*?) by step"', text) == [
    "loss",
    "absolute_error",
    "learning rate",
    "examples / s",
    "input wait (share of time)",
  ]


def test_of_one_id_all_elements_are_the_same(finished):
  """The panels share letters and clip paths, by ids that their content gives."""
  _, text, _ = finished
  found = {}
  for name, content in re.findall(r'<(?:path|clipPath) id="([^"]*)"(.*?/>)', text, re.S):
    found.setdefault(name, set()).add(content)
  assert {name for name, contents in found.items() if len(contents) > 1} == set()
  assert len(re.findall(r'\bid="', text)) == len(re.findall(r'<(?:path|clipPath) id="', text))
  assert set(re.findall(r'(?:href="|url\()#([^")]*)', text)) <= found.keys()


def test_the_first_predictions_and_their_picture(finished):
  model_dir, text, page = finished
  (table,) = [table for table in page.tables if table[0] == ["", "y", "first"]]
  predictions = [
    json.loads(line) for line in (model_dir / "predictions-4.jsonl").read_text().splitlines()
  ]
  assert len(predictions) == 11
  assert table[1:] == [
    [str(index), f"{one['y']:.5g}", f"{one['first']:.5g}"]
    for index, one in enumerate(predictions[:10])
  ]
  assert f'src="data:image/png;base64,{base64.b64encode(PNG).decode()}"' in text


def test_environment_and_configuration(finished):
  model_dir, text, page = finished
  (environment,) = [dict(table) for table in page.tables if table[0][0] == "started"]
  assert (environment["device"], environment["precision"], environment["seed"]) == (
    "cpu, 1 replica",
    "float32",
    "1",
  )
  assert {"command", "tensorflow", "keras", "python", "machine"} <= environment.keys()
  for name in ("config.gin", "operative_config.gin"):
    assert f"<pre>{(model_dir / name).read_text()}</pre>" in html.unescape(text)


def test_a_run_that_has_just_begun_has_what_there_is(bare):
  text, page = write(bare)
  assert page.headings == ["run", "Curves"]
  assert "Step 30. First report 1970-01-02 00:00:00, last report 1970-01-02 00:00:00 UTC." in text
  assert tiles(text) == {"loss, train": "0.25", "examples / s, median": "20,000"}


def test_a_loss_that_is_no_number(bare):
  metrics_file.append(bare, "train", 40, {"loss": math.inf})
  assert tiles(write(bare)[0])["loss, train"] == "not a number"


def test_a_share_is_in_percent(bare):
  metrics_file.append(bare, "train", 40, {"loss": 1.0, "input_wait": 0.0191})
  lines = metrics_file.read(bare)[-1:]
  assert run_report.results(lines)["input wait (share of time), median"] == "1.9%"


def test_an_older_evaluation_says_of_which_step_it_is(bare):
  metrics_file.append(bare, "eval_small", 20, {"accuracy": 0.5})
  text, _ = write(bare)
  assert "eval_small is of step 20." in text
  assert tiles(text)["accuracy, eval_small"] == "0.5"


def test_earlier_starts_are_there_the_newest_first(bare):
  (bare / "environment.json").write_text(
    json.dumps({"started": "c", "earlier": [{"started": "a"}, {"started": "b"}]})
  )
  text, page = write(bare)
  assert [table[0][1] for table in page.tables] == ["c", "b", "a"]
  assert "Earlier starts: 2" in text


def test_the_predictions_of_the_highest_step(bare):
  for step in (9, 10):
    (bare / f"predictions-{step}.jsonl").write_text(json.dumps({"class": f"<{step}>"}) + "\n")
  (bare / "predictions-best.jsonl").write_text("")
  assert write(bare)[1].tables == [[["", "class"], ["0", "<10>"]]]


def test_a_classifiers_predictions_are_names_and_percent(bare):
  rows = [
    {"class": 1, "class_name": "dog", "probabilities": [0.25, 0.7, 0.05], "id": "a"},
    {"class": 0, "class_name": "cat", "probabilities": [0.9999, 0.0, 0.0001], "id": "b"},
  ]
  path = bare / "predictions-30.jsonl"
  path.write_text("".join(json.dumps(row) + "\n" for row in rows))
  assert write(bare)[1].tables == [
    [
      ["", "predicted", "probability", "id"],
      ["0", "dog", "70.0%", "a"],
      ["1", "cat", "100.0%", "b"],
    ]
  ]


@pytest.mark.parametrize(
  "row",
  [
    {"class": [1], "probabilities": [0.5, 0.5]},  # of several places, as in segmentation
    {"class": 7, "probabilities": [0.5, 0.5]},
    {"class": 0, "probabilities": [[0.5], [0.5]]},
  ],
)
def test_other_predictions_are_shown_as_they_are(bare, row):
  (bare / "predictions-30.jsonl").write_text(json.dumps(row) + "\n")
  assert write(bare)[1].tables[0][0] == ["", "class", "probabilities"]


@pytest.mark.parametrize(
  "value, shown",
  [
    (0.123456789, "0.12346"),
    (3, "3"),
    (None, ""),
    (True, "true"),
    ("<b>", "<b>"),
    ("x" * 200, "x" * 100 + "…"),
    ([1e-9, 0.25, 0.9999], "0, 0.25, 1"),
    (list(range(20)), "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, … (20)"),
    ([[0.0] * 4] * 4, "0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, … (4×4)"),
    ([["a"], ["b", "c"]], "a, b, c"),
    ([], ""),
    ({"inner": [1]}, '{"inner": [1]}'),
  ],
)
def test_values_of_predictions_are_short(value, shown):
  assert run_report._shown(value) == shown
