"""The parameters and the files of a run that a tracker gets beside the metrics."""

import contextlib
import glob
import importlib.util
import os
import tempfile
from collections.abc import Iterator, Sequence

from trainer.io import paths
from trainer.outputs import exporters
from trainer.plot import curves, html_page, run_report, runs_report
from trainer.reporting import trial_file

CONFIG, REPORT, EXPORT = "config", "report", "export"
ALL = (CONFIG, REPORT, EXPORT)
_CONFIGS = ("config.gin", "operative_config.gin", "environment.json")
_EVALUATIONS = "evaluation_reports"


def parameters(model_dir: str) -> dict[str, str]:
  """Returns the gin bindings that took effect in a run, key → value as gin writes it.

  A run without gin has none, nor has a run before its first device loop.
  """
  path = paths.path(model_dir) / "operative_config.gin"
  return runs_report.bindings(path.read_text()) if path.exists() else {}


def name_of(model_dir: str) -> str:
  """Returns the name of a run in a tracker: the name of its trial, or of its folder."""
  trial = trial_file.read(model_dir)
  return trial.title if trial else os.path.basename(os.path.abspath(model_dir.rstrip("/")))


@contextlib.contextmanager
def of_run(model_dir: str, wanted: Sequence[str]) -> Iterator[dict[str, str]]:
  """Yields the files and folders of a run that a tracker gets: name there → path on this machine.

  Args:
    model_dir: the folder of the run.
    wanted: CONFIG for the configuration and environment.json; REPORT for report.html (if matplotlib
      is installed) and the evaluation reports; EXPORT for the newest SavedModel of each exporter.
      Of a folder on another file system, only report.html.
  """
  names = list(_CONFIGS) if CONFIG in wanted else []
  names += [_EVALUATIONS] if REPORT in wanted else []
  names += _exports(model_dir) if EXPORT in wanted else []
  # Trackers take files of this machine alone: a gs:// path is none of them.
  paths_there = {name: os.path.join(model_dir, name) for name in names}
  found = {name: path for name, path in paths_there.items() if os.path.exists(path)}
  with tempfile.TemporaryDirectory() as own:
    if REPORT in wanted and importlib.util.find_spec("matplotlib"):
      found["report.html"] = os.path.join(own, "report.html")
      html_page.save(found["report.html"], run_report.page(model_dir, curves.collect([model_dir])))
    yield found


def _exports(model_dir):
  """Returns the newest export of each exporter, by its path below the run's folder."""
  base = os.path.join(model_dir, "export")
  folders = [base, *sorted(glob.glob(os.path.join(glob.escape(base), "*")))]
  newest = [exporters.newest(folder) for folder in folders if os.path.isdir(folder)]
  return [os.path.relpath(path, model_dir) for path in newest if path]
