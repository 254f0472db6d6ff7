"""The sides of the comparison of exports: what a slice of each is, and which there are."""

import dataclasses

import numpy as np
import pytest

from benchmarks import cases, exports

CASE = dataclasses.replace(cases.CASES["digits"], steps=3)


class Turns:
  """So many turns."""

  def __init__(self, count):
    self.count = count

  def take(self):
    self.count -= 1
    return self.count >= 0


def test_a_slice_of_batches():
  shapes = []
  exports._work(Turns(2), CASE, lambda images: shapes.append(images.shape), None)
  assert shapes == [(32, 8, 8, 1)] * 6


def test_a_slice_of_single_images_leaves_its_seconds(tmp_path):
  found = []
  path = str(tmp_path / "seconds.npy")
  exports._work(Turns(2), CASE, found.append, path)
  seconds = np.load(path)
  assert seconds.shape == (2, exports._CALLS)
  assert len(found) == seconds.size
  assert np.all(seconds > 0)
  assert found[0].shape == (1, 8, 8, 1)
  assert found[0].dtype == np.float32
  assert 0.5 < max(image.max() for image in found) <= 1


@pytest.mark.parametrize("installed", [(), ("openvino",), ("onnxruntime", "openvino")])
def test_engines_that_are_not_installed_have_no_rows(installed, monkeypatch):
  monkeypatch.setattr(exports.importlib.util, "find_spec", lambda name: name in installed)
  assert tuple(exports._bare()) == installed


def test_an_error_in_the_process_that_exports_is_told():
  with pytest.raises(RuntimeError, match="fail ended with 1"):
    exports._in_process(fail)


def fail():
  raise ValueError("no export")
