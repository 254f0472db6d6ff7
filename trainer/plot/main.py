"""Draws the learning curves of finished and running runs, and writes reports of runs.

  python -m trainer.plot out/digits                                   curves.png
  python -m trainer.plot out/lr1 out/lr2 --output=lr.svg --metric=loss --metric=accuracy
  python -m trainer.plot out/digits --html=report.html
  python -m trainer.plot out/lr1 out/lr2 --html=both.html

It reads the files of the runs (see `trainer.reporting.metrics_file`); for runs on a local disk it
needs neither TensorBoard nor TensorFlow.
"""

from absl import flags

from trainer import errors
from trainer.plot import curves

_OUTPUT = flags.DEFINE_string(
  "output", None, "The picture, *.png or *.svg. Default: curves.png; with --html, none."
)
_METRIC = flags.DEFINE_multi_string(
  "metric", [], "A metric to draw; repeat the flag for several. Default: all."
)
_HTML = flags.DEFINE_string(
  "html",
  None,
  "A page: of one run results, curves, predictions, exports, checkpoints, environment and "
  "configuration; of several their curves and their different settings.",
)


def main(argv: list[str]) -> None:
  """Draws the curves and writes the report, as the flags say.

  Args:
    argv: the program's name, and the folders of the runs.
  """
  model_dirs = argv[1:]
  if not model_dirs:
    raise errors.SettingError("No folder of a run. Try: python -m trainer.plot out/digits")
  found = curves.collect(model_dirs, _METRIC.value)
  output = _OUTPUT.value or (None if _HTML.value else "curves.png")
  if output:
    curves.save(output, found)
    print(f"Wrote {output}: {', '.join(found)}")
  if _HTML.value:
    from trainer.plot import html_page, run_report, runs_report

    page = (
      run_report.page(model_dirs[0], found)
      if len(model_dirs) == 1
      else runs_report.page(model_dirs, found)
    )
    html_page.save(_HTML.value, page)
    print(f"Wrote {_HTML.value}")
