"""A server answers as the SavedModel does, for models with a loop and with look-up tables."""

import json

import numpy as np
import pytest
import tensorflow as tf

from tests.conformance import exported_models
from tests.trainer.serving import asgi
from trainer.serving import catalogue, measurements, predictor, server, service

pytest.importorskip("fastapi")


@pytest.mark.parametrize("kind", ["LSTM", "StringLookup"])
def test_a_model_with_a_state_is_served(kind, tmp_path):
  path = exported_models.export(kind, tmp_path)
  name, array = exported_models.inputs(kind)
  measured = measurements.Measurements(["pets"])
  served = service.Service(predictor.Predictor(path, "tensorflow"), "pets", measured, reload_secs=0)
  served.start()
  try:
    app = server.make_app(catalogue.Catalogue({"pets": served}, measured))
    body = json.dumps({"inputs": {name: array[:3].tolist()}}).encode()
    status, _, answer = asgi.ask(app, body)
  finally:
    served.close()
  assert status == 200, answer
  expected = tf.saved_model.load(path).signatures["serving_default"](
    **{name: tf.constant(array[:3])}
  )
  np.testing.assert_allclose(json.loads(answer)["outputs"], expected["y"], rtol=1e-5)
