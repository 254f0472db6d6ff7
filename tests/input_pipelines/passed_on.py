"""What the input_fn of one set of TensorFlow Datasets passes on: its source and its settings."""

import inspect

from input_pipelines import image_pipeline, tfds_images
from tests.input_pipelines import tiny_data

SETTINGS = {
  "augment": len,
  "mix": max,
  "standardise": "image",
  "cache": "/x",
  "image_size": (3, 5),
  "crop": "squash",
  "shuffle_buffer": 7,
}
_OF_THE_SOURCE = {"params", "split", "data_dir", "input_context", "training", "start"}


def of(input_fn, monkeypatch, **settings):
  """Returns (arguments of the source, settings of the pipeline) of a call."""
  monkeypatch.setattr(tfds_images, "source", lambda *given, **named: (given, named))
  monkeypatch.setattr(image_pipeline, "batches", lambda *given, **named: (given, named))
  (source, batch_size), named = input_fn({"batch_size": 4}, **settings)
  assert batch_size == 4
  return source, named


def check_settings(input_fn, monkeypatch):
  """Checks that each setting arrives, under its name."""
  names = set(inspect.signature(input_fn).parameters) - _OF_THE_SOURCE
  given = {name: SETTINGS[name] for name in names}
  _, named = of(input_fn, monkeypatch, training=True, **given)
  assert {name: named[name] for name in names} == given
  assert named["training"] is True


def check_hosts(input_fn, name, monkeypatch):
  """Checks that one of four hosts reads its part of the set, from its share of `start` on."""
  context = tiny_data.context(1, 4)
  (given, named), pipeline = of(
    input_fn, monkeypatch, data_dir="/d", input_context=context, start=42
  )
  assert (given[0], given[2]) == (name, "/d")
  assert named == {"input_context": context, "gin_name": f"{name}.input_fn"}
  assert pipeline["start"] == 10
