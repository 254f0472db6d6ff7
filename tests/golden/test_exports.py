"""Exports of before they took columns and texts: they load, and predict the same.

Each folder of exports/ is one of a small model. Its golden.json has features, and what was
predicted for them.
"""

import json
import pathlib

import numpy as np
import pytest

from trainer import errors
from trainer.serving import predict as predict_lib
from trainer.serving import predictor, tf_serving

FOLDERS = sorted((pathlib.Path(__file__).parent / "exports").iterdir())


@pytest.fixture(scope="module", params=FOLDERS, ids=lambda folder: folder.name)
def export(request):
  return request.param, json.loads((request.param / "golden.json").read_text())


@pytest.fixture(scope="module")
def model(export):
  return predictor.Predictor(export[0], "tensorflow", batch_sizes=(4,))


def test_features(export, model):
  _, golden = export
  found = model.predict_batch(golden["inputs"])["probabilities"]
  np.testing.assert_allclose(found, golden["probabilities"], atol=1e-6)
  assert (model.loaded.raw, model.loaded.preprocess) == ({}, None)


def test_a_file_of_features(export, tmp_path):
  folder, golden = export
  rows = [
    dict(zip(golden["inputs"], row, strict=True))
    for row in zip(*golden["inputs"].values(), strict=True)
  ]
  (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
  output = tmp_path / "found.jsonl"
  given = [str(tmp_path / "rows.jsonl")]
  assert predict_lib.predict(str(folder), given, str(output), engine="tensorflow") == 0
  found = [json.loads(line)["probabilities"] for line in output.read_text().splitlines()]
  np.testing.assert_allclose(found, golden["probabilities"], atol=1e-6)


def test_requests_of_a_server(export, model):
  _, golden = export
  body = json.dumps({"inputs": golden["inputs"]}).encode()
  call = tf_serving.read_predict(body, model.loaded)
  assert call.signature == "serving_default"
  others = "from_bytes, from_examples" if model.loaded.decoders else "from_examples"
  with pytest.raises(errors.InputError, match=f"expected one of {others}, serving_default"):
    tf_serving.read_predict(b'{"signature_name": "x"}', model.loaded)
