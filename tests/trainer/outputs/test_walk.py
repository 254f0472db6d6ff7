"""docs/architecture.md tells the walk of an export as an export goes."""

import os
import sys

import trainer
from docs.tools import architecture
from tests.trainer.outputs import test_preprocessing


def files_in_order(run):
  """The files of trainer/ that a function enters, in the order in which it first does."""
  root, found = os.path.dirname(trainer.__file__) + os.sep, {}

  def record(frame, event, argument):
    path = frame.f_code.co_filename
    if event == "call" and path.startswith(root) and frame.f_code.co_name != "<module>":
      found.setdefault(path.removeprefix(root))

  sys.setprofile(record)
  try:
    run()
  finally:
    sys.setprofile(None)
  return list(found)


def test_an_export_enters_the_files_of_its_walk_in_their_order(tmp_path):
  estimator = test_preprocessing.make_estimator(
    tmp_path / "model", class_names=test_preprocessing.NAMES
  )
  estimator.train(test_preprocessing.input_fn, steps=1)
  entered = files_in_order(lambda: estimator.export_saved_model(tmp_path / "export"))
  walks = architecture.walks(architecture.PAGE.read_text())
  (walk,) = [files for title, files in walks.items() if title.startswith("An export")]
  assert [file for file in entered if file in walk] == walk
  assert {file for file in entered if file.startswith("outputs/")} <= set(walk)
