"""The server: TensorFlow Serving's shapes, one sentence for what cannot be used, newer exports."""

import base64
import json
import os
import re
import shutil

import numpy as np
import pytest
import tensorflow as tf

from tests.trainer.serving import exported as exported_lib
from trainer.outputs import checks
from trainer.serving import bodies, catalogue, measurements, page, predictor, server
from trainer.serving import service as service_lib

pytest.importorskip("fastapi", reason="needs the extra [serve]")
pytest.importorskip("prometheus_client", reason="needs the extra [serve]")
parser = pytest.importorskip("prometheus_client.parser")
openmetrics_parser = pytest.importorskip("prometheus_client.openmetrics.parser")
testclient = pytest.importorskip("starlette.testclient", reason="needs httpx")

URL = "/v1/models/pets"


@pytest.fixture(scope="module")
def saved_model(tmp_path_factory):
  return exported_lib.make(tmp_path_factory.mktemp("server"))[1]


@pytest.fixture(scope="module")
def served(saved_model):
  """A client of a server."""
  model = predictor.Predictor(os.path.dirname(saved_model), "tensorflow")
  _, app = make_app(model, bodies.Limits(max_bytes=1 << 20))
  with testclient.TestClient(app) as client:
    yield client


def make_app(model, *arguments, **settings):
  """Returns (service, app) of a model."""
  measured = measurements.Measurements(["pets"])
  service = service_lib.Service(model, "pets", measured, reload_secs=0)
  models = catalogue.Catalogue({"pets": service}, measured)
  return service, server.make_app(models, *arguments, **settings)


def images(count=2):
  return np.random.RandomState(9).rand(count, *exported_lib.SHAPE).astype(np.float32)


@pytest.fixture(scope="module")
def wanted(saved_model):
  found = tf.saved_model.load(saved_model).signatures["serving_default"](image=images())
  return {name: tensor.numpy() for name, tensor in found.items()}


def b64(content):
  return {"b64": base64.b64encode(content).decode()}


@pytest.mark.parametrize("rows", ["named", "bare"])
def test_rows(rows, served, wanted):
  instances = [{"image": image} if rows == "named" else image for image in images().tolist()]
  answer = served.post(f"{URL}:predict", json={"instances": instances})
  assert answer.status_code == 200
  found = answer.json()["predictions"]
  assert [row["class"] for row in found] == wanted["class"].tolist()
  np.testing.assert_allclose(
    [row["probabilities"] for row in found], wanted["probabilities"], atol=1e-6
  )


@pytest.mark.parametrize("named", [True, False])
def test_columns(named, served, wanted):
  columns = images().tolist()
  answer = served.post(
    f"{URL}:predict",
    json={"signature_name": "serving_default", "inputs": {"image": columns} if named else columns},
  )
  assert answer.json()["outputs"]["class"] == wanted["class"].tolist()


def test_files_and_examples(served, saved_model):
  files = [exported_lib.png(1), exported_lib.png(2, (20, 30))]
  found = tf.saved_model.load(saved_model).signatures["from_bytes"](image=tf.constant(files))
  expected = found["probabilities"].numpy()

  def check(signature, instances):
    answer = served.post(
      f"{URL}:predict", json={"signature_name": signature, "instances": instances}
    ).json()
    np.testing.assert_allclose(
      [row["probabilities"] for row in answer["predictions"]], expected, atol=1e-6
    )

  check("from_bytes", [{"image": b64(file)} for file in files])
  check("from_bytes", [b64(file) for file in files])
  check("from_examples", [b64(checks.serialise({"image": file})) for file in files])
  answer = served.post(
    f"{URL}:classify", json={"examples": [{"image": b64(file)} for file in files]}
  )
  result = answer.json()["result"]
  assert [[name for name, _ in row] for row in result] == [exported_lib.NAMES] * 2
  np.testing.assert_allclose([[score for _, score in row] for row in result], expected, atol=1e-6)


def with_value(text):
  """Returns a body with an image one value of which is this text."""
  image = images(1).tolist()
  image[0][2][1][0] = "HERE"
  return json.dumps({"instances": image}).replace('"HERE"', text).encode()


BAD = {
  "no JSON": (b"{", 400, "The body is damaged"),
  "no text": (b"\xff\xfe", 400, "The body is damaged"),
  "deep JSON": (b"[" * 200_000, 400, "The body is damaged"),
  "a list": (b"[]", 400, r"it is \[\], expected a dict.*: send a JSON object"),
  "nothing": (b"{}", 400, 'Expected one of "instances" and "inputs"'),
  "no instance": (b'{"instances": []}', 400, "a list of at least one example"),
  "a wrong shape": (b'{"instances": [[1, 2]]}', 400, r"'image' must be float32\[n, 6, 5, 3\]"),
  "a ragged list": (b'{"instances": [[1], [1, 2]]}', 400, "'image' must be"),
  "a text": (b'{"instances": ["a"]}', 400, "'image' must be"),
  "another feature": (b'{"instances": [{"picture": 1}]}', 400, "it knows|is missing"),
  "mixed rows": (b'{"instances": [{"image": 1}, {"picture": 1}]}', 400, r'"instances"\[1\] has'),
  "NaN": (with_value("NaN"), 400, r"'image' is nan at \[0, 2, 1, 0\]: expected finite numbers"),
  "infinity": (with_value("-Infinity"), 400, r"'image' is -inf at \[0, 2, 1, 0\]: expected finite"),
  "beyond float64": (
    with_value("1e999"),
    400,
    r"'image' is inf at \[0, 2, 1, 0\]: expected finite",
  ),
  "beyond float32": (with_value("1e39"), 400, r"'image' is inf at \[0, 2, 1, 0\]: expected finite"),
  "no base64": (
    b'{"signature_name": "from_bytes", "instances": [{"b64": "?"}]}',
    400,
    "is no base64",
  ),
  "a JPEG that is cut off": (
    json.dumps({"signature_name": "from_bytes", "instances": [b64(b"\xff\xd8\xff\xe0 cut")]}),
    400,
    "The decoder fails: .*JPEG",
  ),
  "numbers for a file": (
    b'{"signature_name": "from_bytes", "instances": [1]}',
    400,
    "'image' must be the bytes of files",
  ),
  "no Example": (
    json.dumps({"signature_name": "from_examples", "instances": [b64(b"\xff")]}),
    400,
    "no tf.train.Example",
  ),
  "an unknown signature": (b'{"signature_name": "x", "instances": [1]}', 400, "'x': expected one"),
  "a large body": (b" " * (1 << 21), 413, "larger than 1 MiB"),
}


@pytest.mark.parametrize(
  ("body", "code", "message"), [pytest.param(*case, id=name) for name, case in BAD.items()]
)
def test_what_cannot_be_used(body, code, message, served):
  answer = served.post(f"{URL}:predict", content=body)
  assert answer.status_code == code
  assert re.search(message, answer.json()["error"])
  assert "\n" not in answer.json()["error"]
  assert served.get("/healthz").status_code == 200


def test_a_large_body_whose_size_is_not_announced(served):
  answer = served.post(f"{URL}:predict", content=iter([b" " * (1 << 19)] * 4))
  assert answer.status_code == 413


@pytest.mark.parametrize(
  ("method", "path", "message"),
  [
    ("POST", "/v1/models/other:predict", "There is no model 'other' here; there is 'pets'"),
    ("POST", f"{URL}:regress", "There is no :regress"),
    ("POST", f"{URL}/versions/3:predict", "has not loaded version 3"),
    ("GET", "/v1/models/other", "There is no model 'other'"),
  ],
)
def test_paths_that_are_not_there(method, path, message, served):
  answer = served.request(method, path, content=b"{}")
  assert answer.status_code == 404
  assert message in answer.json()["error"]


def test_what_it_says_of_itself(served, saved_model):
  version = os.path.basename(saved_model)
  status = served.get(URL).json()["model_version_status"][0]
  assert (status["version"], status["state"]) == (version, "AVAILABLE")
  found = served.get(f"{URL}/metadata").json()
  assert found["model_spec"] == {"name": "pets", "signature_name": "", "version": version}
  signature = found["metadata"]["signature_def"]["signature_def"]["serving_default"]
  assert signature["inputs"]["image"]["dtype"] == "DT_FLOAT"
  sizes = [dim["size"] for dim in signature["inputs"]["image"]["tensor_shape"]["dim"]]
  assert sizes == ["-1", "6", "5", "3"]
  about = served.get(f"{URL}/about").json()
  assert (about["image"], about["class_names"]) == ("image", exported_lib.NAMES)
  versioned = served.post(
    f"{URL}/versions/{version}:predict", json={"instances": images().tolist()}
  )
  assert versioned.status_code == 200


@pytest.mark.parametrize("format", ["text/plain", "application/openmetrics-text"])
def test_what_prometheus_reads(format, served, saved_model):
  served.post(f"{URL}:predict", content=b"{")
  assert served.post(f"{URL}:predict", json={"instances": images().tolist()}).status_code == 200
  path = "/metrics" if format == "text/plain" else "/monitoring/prometheus/metrics"
  answer = served.get(path, headers={"Accept": f"{format}; version=1.0.0"})
  assert answer.headers["content-type"].startswith(f"{format};")
  parse = parser if format == "text/plain" else openmetrics_parser
  families = {each.name: each for each in parse.text_string_to_metric_families(answer.text)}

  def values(family, name, **labels):
    samples = [each for each in families[family].samples if each.name == name]
    return [each.value for each in samples if labels.items() <= each.labels.items()]

  total = "octet_requests_total"
  (refused,) = values("octet_requests", total, model="pets", verb="predict", code="400")
  (answered,) = values("octet_requests", total, model="pets", verb="predict", code="200")
  counts = values("octet_request_seconds", "octet_request_seconds_count", model="pets")
  assert counts == [sum(values("octet_requests", total))]
  assert refused >= 1
  assert answered >= 1
  batches = values("octet_batch_examples", "octet_batch_examples_bucket", le="+Inf")
  assert batches >= values("octet_batch_examples", "octet_batch_examples_bucket", le="1.0")
  version = float(os.path.basename(saved_model))
  assert values("octet_model_version", "octet_model_version") == [version]
  assert values("process_resident_memory_bytes", "process_resident_memory_bytes")[0] > 1e6


def test_the_page(served):
  answer = served.get("/")
  assert answer.headers["content-type"].startswith("text/html")
  assert 'const NAME = "pets"' in answer.text
  assert "http" not in answer.text.replace("http-equiv", "")  # it loads nothing from elsewhere
  assert "</script>" not in page.html("</script>").split("const NAME")[1].splitlines()[0]


def test_a_newer_export_and_one_that_cannot_be_used(saved_model, tmp_path, caplog):
  shutil.copytree(saved_model, tmp_path / "1")
  model = predictor.Predictor(str(tmp_path), "tensorflow")
  service, app = make_app(model)
  with testclient.TestClient(app) as client:
    shutil.copytree(saved_model, tmp_path / "2")
    service.reload()
    assert client.get(URL).json()["model_version_status"][0]["version"] == "2"
    (tmp_path / "3").mkdir()
    (tmp_path / "3" / "saved_model.pb").write_text("damaged")
    for _ in range(2):
      service.reload()
    assert client.get(URL).json()["model_version_status"][0]["version"] == "2"
    assert client.post(f"{URL}:predict", json={"instances": images().tolist()}).status_code == 200
    assert (
      'octet_reload_failures_total{model="pets"} 1.0' in client.get("/metrics").text
    )  # told once
