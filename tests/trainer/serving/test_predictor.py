"""A model that is loaded once: what it takes, what it refuses, and how a newer one takes its
place.
"""

import json
import os
import shutil
import threading

import numpy as np
import pytest

import trainer
from tests.trainer import programs
from tests.trainer.serving import exported as exported_lib
from trainer import errors
from trainer.outputs import engines
from trainer.serving import catalogue, loaded_model, tf_serving
from trainer.serving import predictor as predictor_lib


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
  return exported_lib.make(tmp_path_factory.mktemp("predictor"))


@pytest.fixture(scope="module")
def predictor(trained):
  return predictor_lib.Predictor(os.path.dirname(trained[1]), "tensorflow")


def images(count):
  return np.random.RandomState(9).rand(count, *exported_lib.SHAPE).astype(np.float32)


def test_it_predicts_what_the_estimator_predicts(trained, predictor):
  def input_fn(params):
    return exported_lib.input_fn(params).take(1)

  features = next(iter(input_fn({"batch_size": 8})))[0]["image"].numpy()
  wanted = [found["probabilities"] for found in trained[0].predict(input_fn)]
  found = predictor.predict_batch({"image": features})
  np.testing.assert_allclose(found["probabilities"], wanted, atol=1e-6)
  lists = predictor.predict_batch({"image": features.tolist()})
  np.testing.assert_array_equal(lists["class"], found["class"])


def test_a_checkpoint(trained):
  made = predictor_lib.Predictor.of_checkpoint(trained[0], engine="tensorflow")
  assert made.predict_batch({"image": images(3)})["probabilities"].shape == (3, 2)


def test_files_are_decoded(predictor):
  encoded = [exported_lib.png(1), exported_lib.png(2, (30, 20))]
  wanted = np.stack([exported_lib.decode(file) for file in encoded])
  np.testing.assert_allclose(predictor.decode("image", encoded), wanted, atol=1e-6)
  found = predictor.predict_batch({"image": encoded}, signature="from_bytes")
  expected = predictor.predict_batch({"image": wanted})
  np.testing.assert_allclose(found["probabilities"], expected["probabilities"], atol=1e-6)


@pytest.mark.parametrize(
  ("features", "message"),
  [
    ({}, "The model takes image; 'image' is missing"),
    ({"image": images(1), "more": [1]}, "The model takes image; it knows no 'more'"),
    ({"image": images(1)[0]}, r"'image' must be float32\[n, 6, 5, 3\]; its shape is \[6, 5, 3\]"),
    ({"image": [["a"]]}, r"'image' must be float32.*: it has str\d* values"),
    ({"image": [[1, 2], [3]]}, "'image' must be float32"),
    ({"image": images(0)}, "There is no example"),
  ],
)
def test_features_that_do_not_fit(features, message, predictor):
  with pytest.raises(errors.InputError, match=message):
    predictor.predict_batch(features)


def test_files_that_cannot_be_decoded(predictor):
  with pytest.raises(errors.InputError, match=r"The decoder fails: (?!.*\{\{).*JPEG"):
    predictor.decode("image", [exported_lib.png(1), b"\xff\xd8\xff\xe0 is cut off"])
  with pytest.raises(errors.InputError, match="cannot decode files for 'sound'; it can for image"):
    predictor.decode("sound", [b""])


@pytest.mark.parametrize(
  ("names", "message"),
  [
    ([], "There is no export in .*; it has nothing"),
    (["best", "latest"], "with numbers as names; it has best, latest"),
  ],
)
def test_no_export(names, message, tmp_path):
  for name in names:
    (tmp_path / name).mkdir()
  with pytest.raises(errors.InputError, match=message):
    predictor_lib.newest_export(str(tmp_path))


def test_the_newest_is_the_greatest_number(tmp_path):
  for name in ("9", "10", ".writing-11", "best"):
    (tmp_path / name).mkdir()
    (tmp_path / name / "saved_model.pb").touch()
  (tmp_path / "12").mkdir()  # not all of its files are there yet, as on an object store
  assert predictor_lib.newest_export(str(tmp_path)) == str(tmp_path / "10")


def test_a_newer_export_takes_the_place_while_others_predict(trained, tmp_path):
  base = tmp_path / "export"
  shutil.copytree(trained[1], base / "1")
  made = predictor_lib.Predictor(str(base), "tensorflow")
  assert not made.reload_if_newer()
  stop, answers = threading.Event(), []

  def ask():
    while not stop.is_set():
      answers.append(made.predict_batch({"image": images(2)})["class"].shape)

  threads = [threading.Thread(target=ask) for _ in range(3)]
  for thread in threads:
    thread.start()
  try:
    shutil.copytree(trained[1], base / "2")
    assert made.reload_if_newer()
  finally:
    stop.set()
    for thread in threads:
      thread.join()
  assert made.loaded.version == "2"
  assert set(answers) == {(2,)}
  # One that cannot be used leaves the former in its place.
  (base / "3").mkdir()
  assert not made.reload_if_newer()  # not published to its end
  (base / "3" / "saved_model.pb").write_text("damaged")
  with pytest.raises(errors.InputError, match="is no SavedModel"):
    made.reload_if_newer()
  assert made.loaded.version == "2"


class Recording(engines.Engine):
  """Holds on to what it is called with."""

  name = "recording"

  def __init__(self):
    self.calls = []

  def predict_batch(self, features):
    self.calls.append(features)
    return features


@pytest.fixture
def recording(monkeypatch):
  made = []

  def load(path, name, **settings):
    made.append((path, settings, Recording()))
    return made[-1][-1]

  monkeypatch.setattr(engines, "load", load)
  return made


def test_a_request_finds_all_compiled(trained, tmp_path, recording, monkeypatch):
  decoded = []
  decode = loaded_model.LoadedModel.decode
  monkeypatch.setattr(
    loaded_model.LoadedModel,
    "decode",
    lambda self, feature, files: decoded.append(files) or decode(self, feature, files),
  )
  path = exported_lib.make(tmp_path, warm_up_batches=(1, 5))[1]
  predictor_lib.Predictor(path, "tensorflow")
  ((_, _, engine),) = recording
  # As serving_default, and with files.
  assert [len(call["image"]) for call in engine.calls] == [1, 1, 5, 5]
  assert np.ptp(engine.calls[2]["image"]) > 0  # an example of the data, and nothing made up
  assert [len(files) for files in decoded] == [1, 5]
  # An export without requests to warm up with.
  predictor_lib.Predictor(trained[1], "tensorflow")
  assert [call["image"].shape for call in recording[1][-1].calls] == [(1, *exported_lib.SHAPE)]


def test_a_newer_export_is_measured_anew(trained, tmp_path, recording):
  shutil.copytree(trained[1], tmp_path / "1")
  made = predictor_lib.Predictor(str(tmp_path), "auto", batch_sizes=(1, 4))
  shutil.copytree(trained[1], tmp_path / "2")
  assert made.reload_if_newer()
  assert [os.path.basename(path) for path, _, _ in recording] == ["1", "2"]
  assert all(settings["batch_sizes"] == (1, 4) for _, settings, _ in recording)
  assert made.loaded.engine is recording[1][-1]


def test_other_signatures_of_the_models_own(tmp_path):
  def model_fn(features, labels, mode, params):
    spec = programs.line(features, labels, mode, params)
    if mode == trainer.ModeKeys.PREDICT:
      doubled = {"twice": 2 * spec.predictions["y"]}
      spec.export_outputs = {"serving_default": spec.predictions, "doubled": doubled}
    return spec

  estimator = programs.estimator(tmp_path / "model", model_fn).train(programs.train_input, steps=1)
  made = predictor_lib.Predictor(estimator.export_saved_model(tmp_path / "export"))
  assert set(made.loaded.engines) == {"serving_default", "doubled"}  # not from_examples
  x = programs.arrays(5)[0]
  found = made.predict_batch({"x": x}, signature="doubled")
  np.testing.assert_allclose(found["twice"], 2 * made.predict_batch({"x": x})["y"], rtol=1e-6)
  with pytest.raises(errors.InputError, match="no signature 'tripled' of its own; it has serving"):
    made.predict_batch({"x": x}, signature="tripled")
  loaded = made.loaded
  body = json.dumps({"signature_name": "doubled", "instances": x.tolist()}).encode()
  call = tf_serving.read_predict(body, loaded)
  answer = call.write(loaded.engines[call.signature].predict_batch(call.features))
  np.testing.assert_allclose(json.loads(answer)["predictions"], found["twice"], rtol=1e-6)


def test_a_catalogue_reloads_its_models(trained, tmp_path):
  pytest.importorskip("prometheus_client", reason="needs the extra [serve]")
  shutil.copytree(trained[1], tmp_path / "1")
  settings = dict(engine="tensorflow", batch_sizes=(1,))
  models = catalogue.load({"pets": str(tmp_path)}, settings, max_batch=4)
  try:
    service, loaded = models.find("pets", "1")
    assert service.measurements is models.measurements
    shutil.copytree(trained[1], tmp_path / "2")
    service.reload()
    assert (loaded.version, models.find("pets")[1].version) == ("1", "2")
    with pytest.raises(errors.InputError, match="There is no export in"):
      catalogue.load({"pets": str(tmp_path / "x")}, settings)
  finally:
    models.close()
