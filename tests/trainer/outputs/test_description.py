"""What an export says of itself, and what can be read of a SavedModel without loading it."""

import json

import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

import trainer
from trainer import errors
from trainer.outputs import description


def write_model(folder, **signatures):
  """Writes a SavedModel of signatures alone: name → shape of their input "x", None if unknown."""
  model = saved_model_pb2.SavedModel()
  definitions = model.meta_graphs.add().signature_def
  for name, shape in signatures.items():
    info = definitions[name].inputs["x"]
    info.dtype = tf.int32.as_datatype_enum
    info.tensor_shape.CopyFrom(tf.TensorShape(shape).as_proto())
    definitions[name].outputs["y"].dtype = tf.string.as_datatype_enum
  (folder / "saved_model.pb").write_bytes(model.SerializeToString())
  return str(folder)


def write_description(folder, text):
  (folder / "assets.extra").mkdir()
  (folder / "assets.extra" / "octet.json").write_bytes(text)
  return str(folder)


def test_signatures_have_names_types_and_shapes(tmp_path):
  path = write_model(tmp_path, serve=[None, 3], classify=None, scalar=[])
  found = description.signatures_of(path)
  assert list(found) == ["classify", "scalar", "serve"]
  assert found["serve"]["inputs"] == {"x": {"dtype": "int32", "shape": [None, 3]}}
  assert found["serve"]["outputs"] == {"y": {"dtype": "string", "shape": []}}
  assert found["classify"]["inputs"]["x"]["shape"] is None
  assert found["scalar"]["inputs"]["x"]["shape"] == []


def test_the_signature_that_initializes_is_none_of_the_models(tmp_path):
  path = write_model(tmp_path, serve=[None], __saved_model_init_op=[])
  assert list(description.signatures_of(path)) == ["serve"]


@pytest.mark.parametrize("content", [None, b"", b"no protocol buffer"])
def test_what_is_no_saved_model(content, tmp_path):
  if content is not None:
    (tmp_path / "saved_model.pb").write_bytes(content)
  with pytest.raises(errors.InputError, match="is no SavedModel: cannot read .*saved_model.pb"):
    description.signatures_of(str(tmp_path))


def test_a_saved_model_without_a_description_has_its_signatures(tmp_path):
  path = write_model(tmp_path, serve=[None, 3])
  assert description.read(path) == {
    "format": 1,
    "signatures": description.signatures_of(path),
    "decodes": [],
    "raw": {},
    "class_names": None,
    "metrics": {},
  }


def test_what_is_described_is_read_again(tmp_path):
  about = {"model": "digits.model_fn", "global_step": 20, "metrics": {"accuracy": 0.5}}
  written = description.describe({"serve": {}}, about, ("Ä", "b"), {"image", "depth"})
  description.write(str(tmp_path), written)
  found = description.read(str(tmp_path))
  assert found == written
  assert {name: found[name] for name in about} == about
  assert (found["class_names"], found["decodes"]) == (["Ä", "b"], ["depth", "image"])
  assert found["versions"]["octet"] == trainer.__version__
  assert '"Ä"' in (tmp_path / "assets.extra" / "octet.json").read_text()


def test_a_description_with_another_letter_is_damaged(tmp_path):
  description.write(str(tmp_path), description.describe({}, {}, ["cat", "dog"], []))
  path = tmp_path / "assets.extra" / "octet.json"
  path.write_text(path.read_text().replace("dog", "dig"))
  with pytest.raises(errors.FileDamagedError, match=r"octet\.json is damaged \(.*checksum"):
    description.read(str(tmp_path))


def test_a_model_without_names_of_classes():
  assert description.describe({}, {}, None, [])["class_names"] is None


@pytest.mark.parametrize(
  "text", [b"", b'{"format": 1', b"[1]", b"{}", b'{"format": "1"}', b'{"format": null}', b"\xff"]
)
def test_a_damaged_description_is_told(text, tmp_path):
  path = write_description(tmp_path, text)
  with pytest.raises(errors.FileDamagedError, match=r"octet\.json is damaged .*: export again"):
    description.read(path)


def test_a_description_of_a_later_format_is_refused(tmp_path):
  path = write_description(tmp_path, json.dumps({"format": 99}).encode())
  with pytest.raises(
    errors.InputError, match="has the format 99, and this version of Octet reads 1"
  ):
    description.read(path)
