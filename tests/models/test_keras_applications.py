"""keras.applications networks: their own preprocessing, weights from a file, frozen or not, and
mistakes named.
"""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

import trainer
from models import keras_applications
from tests import long
from tests.models import small_runs
from trainer import errors


@pytest.fixture
def small(monkeypatch):
  """A network that costs nothing, in the place of a large one."""

  def Small(include_top=True, weights="imagenet", input_shape=(16, 16, 3)):
    assert weights is None
    image = keras.Input(input_shape)
    x = keras.layers.Conv2D(4, 3, strides=2, name="conv")(image)
    x = keras.layers.BatchNormalization(name="norm")(x)
    x = keras.layers.ReLU()(x)
    if include_top:
      x = keras.layers.Dense(1000)(keras.layers.GlobalAveragePooling2D()(x))
    return keras.Model(image, x)

  Small.__module__ = "keras.src.applications.xception"  # whose preprocessing it takes
  monkeypatch.setattr(keras.applications, "Small", Small, raising=False)
  keras_applications._read_weights.cache_clear()
  return functools.partial(
    keras_applications.model_fn,
    name="Small",
    classes=10,
    hidden_units=(6,),
    optimizer=functools.partial(keras.optimizers.Adam, 0.01),
  )


def test_trains_and_serves(tmp_path, small):
  small_runs.check(small, *small_runs.images(8), tmp_path, steps=12)


@pytest.mark.parametrize("pooling, width", [("avg", 4), ("max", 4), ("flatten", 3 * 3 * 4)])
def test_the_head_pools_as_it_is_told(tmp_path, small, pooling, width):
  estimator = small_runs.trained(
    functools.partial(small, pooling=pooling), *small_runs.images(8), tmp_path, steps=0
  )
  assert estimator.variables["head_hidden_0/kernel"].shape == (width, 6)


@pytest.mark.long
def test_statistics_move_as_fast_as_they_are_told(tmp_path, small):
  moved = []
  for momentum in (None, 0.9):
    model_fn = functools.partial(small, norm_momentum=momentum)
    estimator = small_runs.trained(model_fn, *small_runs.images(8), tmp_path / str(momentum))
    moved.append(estimator.get_variable_value("norm/moving_mean"))
  np.testing.assert_allclose(moved[1], 10 * moved[0], rtol=1e-3)  # one step, of 0.01 and of 0.1


@pytest.mark.long  # the gate has the size of the network below, and trains a small one above
def test_a_real_network_trains(tmp_path):
  features, labels = small_runs.images(32)
  model_fn = functools.partial(
    keras_applications.model_fn, name="VGG16", classes=7, optimizer=keras.optimizers.SGD
  )
  estimator = small_runs.trained(model_fn, features, labels % 7, tmp_path)
  assert small_runs.parameters(estimator, "block") == 14_714_688
  assert small_runs.parameters(estimator, "head") == 513 * 7


@pytest.mark.parametrize(
  "name, size, expected",
  [
    ("VGG16", 32, 14_714_688),
    ("ResNet50", 32, 23_587_712),
    pytest.param("Xception", 71, 20_861_480, marks=pytest.mark.long),
  ],
)
def test_networks_have_their_known_sizes(name, size, expected):
  """As Keras publishes them, without the head."""
  assert keras_applications.build(name, (size, size, 3)).count_params() == expected


FILES = [("small.weights.h5", False), ("small.h5", True), ("small.keras", True)]


@pytest.mark.parametrize("file, frozen", long.except_for(FILES, [*FILES, ("small.h5", False)]))
def test_starts_from_a_file(tmp_path, small, file, frozen):
  network = keras_applications.build("Small", (8, 8, 3))
  weights = [
    np.full(w.shape, 0.01 * (i + 1), np.float32) for i, w in enumerate(network.get_weights())
  ]
  network.set_weights(weights)
  network.save_weights(tmp_path / file) if file == "small.weights.h5" else network.save(
    tmp_path / file
  )

  model_fn = functools.partial(small, weights=str(tmp_path / file), frozen=frozen)
  estimator = small_runs.trained(model_fn, *small_runs.images(8), tmp_path / "run", steps=3)
  first = {
    name: value.numpy()
    for name, value in estimator.variables.items()
    if name.startswith(("conv", "norm"))
  }
  start = dict(zip([variable.path for variable in network.weights], weights, strict=True))
  assert first.keys() == start.keys()
  same = [name for name in start if np.array_equal(first[name], start[name])]
  assert same == (list(start) if frozen else [])
  # Three steps of 0.01, and not a random start.
  near = [np.abs(first[name] - start[name]).max() < 0.1 for name in start if "moving" not in name]
  assert all(near)


@pytest.mark.parametrize("file", ["small.weights.h5", "small.h5", "small.keras"])
def test_the_head_of_a_file_is_left_out(tmp_path, small, file):
  """The published files are of both kinds, and of images of one size."""
  network = keras.applications.Small(weights=None)
  path = tmp_path / file
  network.save_weights(path) if file == "small.weights.h5" else network.save(path)

  model_fn = functools.partial(small, weights=str(path), frozen=True)
  estimator = small_runs.trained(model_fn, *small_runs.images(8), tmp_path / "run")
  np.testing.assert_array_equal(
    estimator.get_variable_value("conv/kernel"), network.get_layer("conv").get_weights()[0]
  )
  assert estimator.variables["head/kernel"].shape == (6, 10)
  keras_applications._read_weights.cache_clear()
  with pytest.raises(errors.SettingError, match="neither without its head nor with"):
    small_runs.trained(model_fn, *small_runs.images(8, channels=1), tmp_path / "grey")


@pytest.mark.long
def test_eight_cores_start_from_a_file(tmp_path, small):
  network = keras_applications.build("Small", (8, 8, 3))
  network.save_weights(tmp_path / "small.weights.h5")
  model_fn = functools.partial(small, weights=str(tmp_path / "small.weights.h5"), frozen=True)
  estimator = small_runs.trained(model_fn, *small_runs.images(8), tmp_path / "run", device="cpu:8")
  np.testing.assert_array_equal(
    estimator.get_variable_value("conv/kernel"), network.get_weights()[0]
  )


def test_the_file_is_needed_to_start_only(tmp_path, small):
  network = keras_applications.build("Small", (8, 8, 3))
  path = tmp_path / "small.weights.h5"
  network.save_weights(path)
  model_fn = functools.partial(
    small, weights=str(path), hidden_units=(), optimizer=keras.optimizers.SGD
  )
  small_runs.trained(model_fn, *small_runs.images(8), tmp_path / "run")
  path.unlink()
  keras_applications._read_weights.cache_clear()
  features, labels = small_runs.images(8)

  def input_fn(params):
    return tf.data.Dataset.from_tensor_slices((features, labels)).batch(params["batch_size"])

  estimator = trainer.Estimator(
    model_fn, str(tmp_path / "run"), trainer.RunConfig(device="cpu"), eval_batch_size=8
  )
  assert np.isfinite(estimator.evaluate(input_fn)["loss"])


@pytest.mark.parametrize(
  "name, low, high",
  [
    ("Xception", [-1.0] * 3, [1.0] * 3),
    ("VGG16", [-103.939, -116.779, -123.68], [151.061, 138.221, 131.32]),
  ],
)
def test_images_are_as_the_network_wants_them(name, low, high):
  for value, expected in ((0.0, low), (1.0, high)):
    np.testing.assert_allclose(
      keras_applications.preprocess(name, np.full((1, 2, 2, 3), value, np.float32))[0, 1, 1],
      expected,
      rtol=1e-5,
    )


def test_red_comes_last_for_networks_trained_on_bgr_images():
  red = np.array([1.0, 0.0, 0.0], np.float32) * np.ones((1, 2, 2, 3), np.float32)
  assert float(keras_applications.preprocess("ResNet50", red)[0, 0, 0, 2]) == pytest.approx(
    255 - 123.68
  )


@pytest.mark.parametrize(
  "settings, message",
  [
    (dict(name="ResNet5O"), "no network 'ResNet5O'.*ResNet50"),
    (dict(name="Xception"), r"Xception cannot take images of shape \(8, 8, 3\)"),
    (dict(weights="/nowhere/x.h5"), "no weights file '/nowhere/x.h5'.*model_fn.weights"),
    (dict(pooling="mean"), "pooling is 'mean'; expected one of avg"),
  ],
)
def test_mistakes_are_named(tmp_path, small, settings, message):
  with pytest.raises(errors.SettingError, match=message):
    small_runs.check(functools.partial(small, **settings), *small_runs.images(8), tmp_path)


def test_a_file_for_another_network_is_named(tmp_path, small):
  other = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
  other.save_weights(tmp_path / "other.weights.h5")
  with pytest.raises(
    errors.SettingError, match="fits Small for images of .8, 8, 3. neither without"
  ):
    small_runs.check(
      functools.partial(small, weights=str(tmp_path / "other.weights.h5")),
      *small_runs.images(8),
      tmp_path / "run",
    )
