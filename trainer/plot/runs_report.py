"""Makes a page on several runs: their results, their different settings, their curves.

text = runs_report.page(["out/lr1", "out/lr2"], curves.collect(["out/lr1", "out/lr2"]))
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from gin import config_parser

from trainer.cli import formatting
from trainer.config import files as config_files
from trainer.config import text as config_text
from trainer.io import paths
from trainer.plot import curves, html_page, run_report
from trainer.reporting import environment, metrics_file

# The bindings in effect include defaults; a run that has just begun has only the given ones.
_CONFIGS = ("operative_config.gin", "config.gin")
# Of environment.json. Its command and its time differ in any case.
_SURROUNDINGS = (
  *("device", "hosts", "precision", "seed"),
  *("octet", "tensorflow", "keras", "python", "machine"),
)


def page(model_dirs: Sequence[str], found: Mapping[str, Sequence[curves.Curve]]) -> str:
  """Returns the text of the page.

  Args:
    model_dirs: the folders of the runs.
    found: the curves to draw; `curves.collect` returns them. The results show all metrics.
  """
  lines = [metrics_file.read(model_dir) for model_dir in model_dirs]
  results = [run_report.results(each) for each in lines]
  metrics = list(dict.fromkeys(metric for each in results for metric in each))
  settings = [_settings(model_dir) for model_dir in model_dirs]
  keys = differing(settings)
  rows = [
    [name, *_cells(setting, keys), f"{each[-1]['step']:,}", *_cells(result, metrics)]
    for name, each, result, setting in zip(
      curves.run_names(model_dirs), lines, results, settings, strict=True
    )
  ]
  return html_page.render(
    "plot/runs.html",
    title=f"{len(model_dirs)} runs",
    header=["run", *formatting.short_names(keys), "step", *metrics],
    rows=rows,
    numbers=range(1 + len(keys), 2 + len(keys) + len(metrics)),
    alike="" if keys else "The runs have the same settings.",
    panels=list(curves.svgs(found).values()),
  )


def differing(settings: Sequence[Mapping[str, str]]) -> list[str]:
  """Returns the keys of settings that differ between runs or that some runs lack."""
  keys = dict.fromkeys(key for each in settings for key in each)
  return [key for key in keys if len({each.get(key) for each in settings}) > 1]


def _cells(values, keys):
  return [values.get(key, "") for key in keys]


def _settings(model_dir):
  """Returns the bindings and the environment of a run, as key → text."""
  folder = paths.path(model_dir)
  given = [folder / name for name in _CONFIGS if (folder / name).exists()]
  records = environment.read(os.fspath(folder))
  surroundings = (
    {key: str(records[0][key]) for key in _SURROUNDINGS if key in records[0]} if records else {}
  )
  return (bindings(given[0].read_text()) if given else {}) | surroundings


def bindings(text: str) -> dict[str, str]:
  """Returns the bindings of gin text, key → value as gin writes it.

  Raises:
    SettingError: the text is not valid gin.
  """
  return {
    _key(statement): config_text.value_text(statement.value) or repr(statement.value)
    for statement in config_files.parse(text).statements
    if isinstance(statement, config_parser.BindingStatement)
  }


def _key(statement: Any) -> str:
  scope = f"{statement.scope}/" if statement.scope else ""
  return f"{scope}{statement.selector}" + (f".{statement.arg_name}" if statement.arg_name else "")
