"""How the engine OpenVINO divides a batch, and its import; `test_choose` runs models.

The package is one in its place, which notes its calls.
"""

import logging
import sys

import numpy as np
import pytest

from trainer.outputs import engines

PACKAGE = """
import logging
import types

# As the package does.
logging.getLogger().handlers.clear()
logging.getLogger().setLevel(logging.ERROR)

STREAMS = 3
calls = []


class Request:
  def start_async(self, inputs, share_inputs):
    calls.append((id(self), len(inputs["x"])))
    self.x = inputs["x"]

  def wait(self):
    pass

  def get_output_tensor(self, place):
    return types.SimpleNamespace(data=self.x * (2, 10)[place])


class Model:
  outputs = [types.SimpleNamespace(any_name=name) for name in ("twice", "ten_times")]


class Compiled:
  def get_property(self, name):
    return str(STREAMS)

  def create_infer_request(self):
    return Request()


class Core:
  def read_model(self, path):
    return Model()

  def compile_model(self, model, device, settings):
    calls.append((device, settings["INFERENCE_NUM_THREADS"], settings["PERFORMANCE_HINT"]))
    return Compiled()
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
  (tmp_path / "openvino.py").write_text(PACKAGE)
  monkeypatch.syspath_prepend(tmp_path)
  kept = sys.modules.pop("openvino", None)
  yield lambda: sys.modules["openvino"]
  sys.modules.pop("openvino", None)
  if kept is not None:
    sys.modules["openvino"] = kept


@pytest.mark.parametrize(("rows", "parts"), [(10, [3, 3, 4]), (2, [1, 1]), (1, [1])])
def test_a_batch_is_cut_into_parts_and_keeps_its_order(package, rows, parts):
  engine = engines.OpenVinoEngine("m.xml", threads=5, in_parts=True)
  x = np.arange(rows * 2, dtype=np.float32).reshape(rows, 2)
  for _ in range(2):
    found = engine.predict_batch({"x": x})
    np.testing.assert_array_equal(found["twice"], 2 * x)
    np.testing.assert_array_equal(found["ten_times"], 10 * x)
  (device, *settings), *requests = package().calls
  assert (engine.name, device, settings) == ("openvino_parts", "CPU", [5, "THROUGHPUT"])
  assert [size for _, size in requests] == parts * 2
  # The second call uses the requests of the first.
  assert len({identity for identity, _ in requests}) == len(parts)


def test_the_import_leaves_the_log_as_it_was(package):
  root = logging.getLogger()
  handlers, level = list(root.handlers), root.level
  handler = logging.NullHandler()
  root.addHandler(handler)
  root.setLevel(logging.INFO)
  try:
    engines._import_openvino()
    assert handler in root.handlers
    assert root.level == logging.INFO
  finally:
    root.handlers[:] = handlers
    root.setLevel(level)
