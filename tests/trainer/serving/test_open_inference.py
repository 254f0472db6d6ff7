"""The Open Inference Protocol: another author's client, both forms of tensors, wrong requests."""

import contextlib
import re
import socket
import threading

import numpy as np
import pytest

from tests.trainer.serving import exported as exported_lib
from tests.trainer.serving import test_raw_values
from tests.trainer.serving.open_inference_calls import answer
from trainer.serving import catalogue, predictor, server

NAMES = ("class", "probabilities")


def test_columns_with_missing_values(tmp_path):
  loaded = predictor.Predictor(test_raw_values.export(tmp_path), "tensorflow").loaded
  inputs = [
    {"name": "mean_age", "shape": [3], "datatype": "FP64", "data": [20.0, None, 40.0]},
    {"name": "job", "shape": [3], "datatype": "BYTES", "data": ["cook", None, "smith"]},
  ]
  parameters = {"signature_name": "from_raw"}
  _, found, _ = answer(loaded, {"inputs": inputs, "parameters": parameters})
  outputs = {each["name"]: each["data"] for each in found["outputs"]}
  expected = test_raw_values.wanted([20.0, np.nan, 40.0], ["cook", "", "smith"])
  np.testing.assert_allclose(outputs["probabilities"], expected.ravel(), atol=1e-6)


@contextlib.contextmanager
def listening(app):
  """Yields HOST:PORT of a server of an application."""
  uvicorn = pytest.importorskip("uvicorn", reason="needs the extra [serve]")
  with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as bound:
    running = uvicorn.Server(uvicorn.Config(app, log_config=None, ws="none"))
    thread = threading.Thread(target=running.run, kwargs={"sockets": [bound]})
    thread.start()  # the socket listens already, so that clients wait for the first answer
    try:
      yield "{}:{}".format(*bound.getsockname())
    finally:
      running.should_exit = True
      thread.join()


@pytest.fixture(scope="module")
def tritonclient():
  return pytest.importorskip("tritonclient.http", reason="needs tritonclient[http]")


@pytest.fixture(scope="module")
def served(tmp_path_factory, tritonclient):
  """(a client of a server of an image model, the model)."""
  pytest.importorskip("fastapi", reason="needs the extra [serve]")
  pytest.importorskip("prometheus_client", reason="needs the extra [serve]")
  path = exported_lib.make(tmp_path_factory.mktemp("v2"))[1]
  models = catalogue.load({"pets": path}, {}, {"engine": "tensorflow"}, reload_secs=0)
  with listening(server.make_app(models)) as address:
    client = tritonclient.InferenceServerClient(address, concurrency=4)
    yield client, models.find("pets").loaded
    client.close()


def images(count):
  return np.random.RandomState(count).rand(count, *exported_lib.SHAPE).astype(np.float32)


def image_input(tritonclient, array, binary=True):
  given = tritonclient.InferInput("image", array.shape, "FP32")
  given.set_data_from_numpy(array, binary_data=binary)
  return given


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("count", [1, 5])
def test_a_client_infers_with_batches(count, binary, served, tritonclient):
  client, loaded = served
  array = images(count)
  outputs = [tritonclient.InferRequestedOutput(name, binary_data=binary) for name in NAMES]
  found = client.infer(
    "pets", [image_input(tritonclient, array, binary)], outputs=outputs, request_id="r7"
  )
  expected = loaded.engine.predict_batch({"image": array})
  for name in NAMES:
    assert found.as_numpy(name).dtype == expected[name].dtype
    np.testing.assert_allclose(found.as_numpy(name), expected[name], atol=1e-6)
  told = found.get_response()
  assert (told["id"], told["model_version"]) == ("r7", loaded.version)


def test_requests_of_a_client_at_once(served, tritonclient):
  client, loaded = served
  arrays = [images(count) for count in range(1, 17)]
  waiting = [client.async_infer("pets", [image_input(tritonclient, array)]) for array in arrays]
  for array, one in zip(arrays, waiting, strict=True):
    expected = loaded.engine.predict_batch({"image": array})["class"]
    np.testing.assert_array_equal(one.get_result().as_numpy("class"), expected)


def test_a_client_sends_files_in_gzip(served, tritonclient):
  client, loaded = served
  files = np.array([exported_lib.png(1), exported_lib.png(2, (30, 20))], object)
  given = tritonclient.InferInput("image", [2], "BYTES")
  given.set_data_from_numpy(files)
  found = client.infer(
    "pets",
    [given],
    parameters={"signature_name": "from_bytes"},
    request_compression_algorithm="gzip",
  )
  expected = loaded.engines["from_bytes"].predict_batch({"image": files})["probabilities"]
  np.testing.assert_allclose(found.as_numpy("probabilities"), expected, atol=1e-6)


def test_what_a_client_is_told(served):
  client, loaded = served
  assert client.is_server_live()
  assert client.is_server_ready()
  assert client.is_model_ready("pets")
  assert not client.is_model_ready("cats")
  assert client.is_model_ready("pets", loaded.version)
  assert client.get_server_metadata()["extensions"] == ["binary_tensor_data"]
  told = client.get_model_metadata("pets")
  assert told["versions"] == [loaded.version]
  assert told["inputs"] == [{"name": "image", "datatype": "FP32", "shape": [-1, 6, 5, 3]}]
  assert {each["name"]: each["datatype"] for each in told["outputs"]} == {
    "class": "INT32",
    "probabilities": "FP32",
  }


@pytest.mark.parametrize(
  ("model", "version", "shape", "status", "message"),
  [
    ("pets", "", (2, 6, 5, 4), "400", r"'image' must be float32\[n, 6, 5, 3\]; its shape is"),
    ("pets", "", (6, 5, 3), "400", "'image' must be float32"),
    ("cats", "", (1, 6, 5, 3), "404", "There is no model 'cats' here; there is 'pets'."),
    ("pets", "7", (1, 6, 5, 3), "404", "has not loaded version 7"),
  ],
)
def test_a_client_is_refused(model, version, shape, status, message, served, tritonclient):
  client, _ = served
  array = np.zeros(shape, np.float32)
  with pytest.raises(Exception, match=re.escape(status)) as caught:
    client.infer(model, [image_input(tritonclient, array)], model_version=version)
  assert re.search(message, caught.value.message())
