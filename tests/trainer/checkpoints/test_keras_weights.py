"""Keras's files: the values are those of the layers whose names are asked for, or an error says
what is not clear.
"""

import h5py
import keras
import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

from trainer import errors
from trainer.checkpoints import keras_weights, warm_start
from trainer.tracing import keras_scope

layers = keras.layers


def network():
  """Layers with and without names, with statistics, of the same class and shape."""
  image = keras.Input([6, 6, 1])
  x = layers.Conv2D(2, 3)(image)
  x = layers.BatchNormalization()(x)
  x = layers.SeparableConv2D(2, 3, padding="same")(x)
  x = layers.Flatten()(x)
  for _ in range(2):
    x = layers.Dropout(0.1)(layers.Dense(8)(x))
  return keras.Model(image, layers.Dense(3)(layers.LayerNormalization()(x)))


def anew(build):
  """A model whose layers are numbered as a model_fn's are, from the start."""
  with keras_scope.KerasScope("float32", seed=0, step=tf.constant(0, tf.int64)).replica_scope():
    return build()


def randomized(model, seed=0):
  random = np.random.RandomState(seed)
  model.set_weights([random.rand(*value.shape) for value in model.get_weights()])
  return model


def zeros(model):
  """Variables with the model's names, as a store has them."""
  return {
    variable.path: tf.Variable(
      tf.zeros(variable.shape), trainable=variable.trainable, name=variable.path
    )
    for variable in model.weights
  }


def check_taken(path, model, settings=None):
  """A warm start from a file gives what the model has; model: numbered from the start."""
  variables = zeros(model)
  warm_start.apply(settings or str(path), variables)
  for variable in model.weights:
    np.testing.assert_array_equal(
      variables[variable.path].numpy(), variable.numpy(), err_msg=variable.path
    )


@pytest.mark.parametrize("name", ["a.weights.h5", "a.keras"])
def test_every_value_comes_to_its_place(name, tmp_path):
  model = randomized(anew(network))
  model.compile("adam", "mse")
  (model.save_weights if "weights" in name else model.save)(tmp_path / name)
  check_taken(tmp_path / name, model)


def test_layers_are_counted_from_0_where_keras_counted_on(tmp_path):
  """Files come from processes that made other layers before: dense_1, dense_2 and dense_3 are
  dense, dense_1 and dense_2 here.
  """

  def later():
    layers.Dense(1)
    layers.Conv2D(1, 1)
    return network()

  model = randomized(anew(later))
  assert model.layers[-1].name == "dense_3"
  model.save_weights(tmp_path / "a.weights.h5")
  same = anew(network)
  same.set_weights(model.get_weights())
  check_taken(tmp_path / "a.weights.h5", same)


def test_names_that_fit_are_taken_as_they_are(tmp_path):
  def named():
    return keras.Sequential(
      [
        keras.Input([2]),
        layers.Dense(2, name="block_1"),
        layers.Dense(2, name="block_2"),
        layers.Dense(2, name="head"),
      ]
    )

  model = randomized(anew(named))
  model.save_weights(tmp_path / "a.weights.h5")
  check_taken(tmp_path / "a.weights.h5", model)
  assert set(keras_weights.read(str(tmp_path / "a.weights.h5"))) == {
    f"{name}/{i}" for name in ("block_1", "block_2", "head") for i in (0, 1)
  }


def test_where_counting_gives_another_layer_it_is_an_error(tmp_path):
  model = anew(
    lambda: keras.Sequential(
      [keras.Input([2]), *(layers.Dense(2, name=f"dense_{i}") for i in (1, 2))]
    )
  )
  model.save_weights(tmp_path / "a.weights.h5")
  variables = {
    "dense_1/kernel": tf.Variable(tf.zeros([2, 2])),
    "dense_1/bias": tf.Variable(tf.zeros([2])),
  }
  with pytest.raises(
    errors.CheckpointError,
    match="dense_1/kernel: it could be dense_1/0 or dense_2/0, by the count of the layers",
  ):
    warm_start.apply(str(tmp_path / "a.weights.h5"), variables)
  renames = {f"dense_1/{name}": f"dense_2/{i}" for i, name in enumerate(["kernel", "bias"])}
  warm_start.apply(
    warm_start.WarmStartSettings(str(tmp_path / "a.weights.h5"), var_name_to_prev_var_name=renames),
    variables,
  )
  np.testing.assert_array_equal(variables["dense_1/kernel"].numpy(), model.layers[1].kernel.numpy())


def nested():
  inner = keras.Sequential([keras.Input([5, 4]), layers.Dense(4), layers.Dense(4)], name="inner")
  tokens = keras.Input([5, 4])
  return keras.Model(tokens, layers.LSTM(3)(layers.MultiHeadAttention(2, 2)(inner(tokens), tokens)))


def test_layers_in_layers(tmp_path):
  model = randomized(anew(nested))
  model.save_weights(tmp_path / "a.weights.h5")
  assert {"inner/dense/0", "multi_head_attention/query/0", "lstm/lstm_cell/2"} <= set(
    keras_weights.read(str(tmp_path / "a.weights.h5"))
  )
  check_taken(tmp_path / "a.weights.h5", model)


def test_a_layer_renamed(tmp_path):
  randomized(anew(network)).save_weights(tmp_path / "a.weights.h5")
  variables = {
    f"head/{name}": tf.Variable(tf.zeros(shape))
    for name, shape in (("kernel", [8, 3]), ("bias", [3]))
  }
  renames = {r"head/(.*)": r"dense_2/\1"}
  report = warm_start.apply(
    warm_start.WarmStartSettings(str(tmp_path / "a.weights.h5"), var_name_to_prev_var_name=renames),
    variables,
  )
  assert report.loaded == {"head/kernel": "dense_2/0", "head/bias": "dense_2/1"}


@pytest.mark.parametrize(("stored", "wanted"), [(False, True), (True, False)])
def test_a_layer_with_other_values_is_not_taken_by_number(stored, wanted, tmp_path):
  """Without a scale, the values of a batch norm would each be taken for the one before."""

  def build(scale):
    return anew(
      lambda: keras.Sequential([keras.Input([2]), layers.BatchNormalization(scale=scale)])
    )

  build(stored).save_weights(tmp_path / "a.weights.h5")
  with pytest.raises(
    errors.CheckpointError,
    match=rf"batch_normalization has {3 + stored} values, "
    r"sequential/batch_normalization has "
    rf"{3 + wanted}",
  ):
    warm_start.apply(str(tmp_path / "a.weights.h5"), zeros(build(wanted)))


class CountsFirst(layers.Layer):
  """Makes what is not trained before what is; Keras stores it after."""

  def build(self, shape):
    self.seen = self.add_weight(shape=[2], name="seen", trainable=False)
    self.scale = self.add_weight(shape=[2], name="scale")


def test_trained_values_come_first(tmp_path):
  model = randomized(anew(lambda: keras.Sequential([keras.Input([2]), CountsFirst()])))
  model.save_weights(tmp_path / "a.weights.h5")
  variables = {
    f"sequential/counts_first/{name}": tf.Variable([0.0, 0.0], trainable=name == "scale")
    for name in ("seen", "scale")
  }
  warm_start.apply(str(tmp_path / "a.weights.h5"), variables)
  for name in ("seen", "scale"):
    np.testing.assert_array_equal(
      variables[f"sequential/counts_first/{name}"].numpy(), getattr(model.layers[0], name).numpy()
    )


def test_averages_are_not_taken_for_what_they_are_averages_of(tmp_path):
  model = randomized(anew(network))
  model.save_weights(tmp_path / "a.weights.h5")
  averages = {
    f"ema/{name}": tf.Variable(variable, trainable=False) for name, variable in zeros(model).items()
  }
  variables = {**zeros(model), **averages}
  warm_start.apply(str(tmp_path / "a.weights.h5"), variables)
  np.testing.assert_array_equal(
    variables["dense_1/kernel"].numpy(), model.get_layer("dense_1").kernel.numpy()
  )
  assert not any(
    average.numpy().any() for name, average in averages.items() if name.endswith("kernel")
  )


def test_two_layers_of_one_name(tmp_path):
  def build():
    parts = [
      keras.Sequential([keras.Input([2]), layers.Dense(2, name="dense")], name=name)
      for name in ("a", "b")
    ]
    return keras.Sequential([keras.Input([2]), *parts])

  anew(build).save_weights(tmp_path / "a.weights.h5")
  variables = {
    "dense/kernel": tf.Variable(tf.zeros([2, 2])),
    "dense/bias": tf.Variable(tf.zeros([2])),
  }
  with pytest.raises(errors.CheckpointError, match="the layer dense could be a/dense or b/dense"):
    warm_start.apply(str(tmp_path / "a.weights.h5"), variables)


def test_layers_of_one_name_are_read_by_their_paths(tmp_path):
  with h5py.File(tmp_path / "a.weights.h5", "w") as file:
    for i, place in enumerate(["encoder/dense", "decoder/dense"]):
      group = file.create_group(f"{place}/vars")
      group.attrs["name"] = "same"
      group["0"] = np.full([2], i)
  found = keras_weights.read(str(tmp_path / "a.weights.h5"))
  assert {name: value[0] for name, value in found.items()} == {
    "encoder/dense/0": 0,
    "decoder/dense/0": 1,
  }


def test_half_precision(tmp_path):
  with h5py.File(tmp_path / "a.weights.h5", "w") as file:
    group = file.create_group("layers/dense/vars")
    group.create_dataset("0", data=np.array([1.5, 2], ml_dtypes.bfloat16)).attrs["dtype"] = (
      "bfloat16"
    )
  np.testing.assert_array_equal(
    keras_weights.read(str(tmp_path / "a.weights.h5"))["dense/0"].astype(np.float32), [1.5, 2]
  )


@pytest.mark.parametrize("whole_model", [True, False])
def test_files_of_keras_2(whole_model, tmp_path):
  with h5py.File(tmp_path / "a.h5", "w") as file:
    root = file.create_group("model_weights") if whole_model else file
    root.attrs["layer_names"] = [b"conv1", b"empty"]
    root.create_group("conv1").attrs["weight_names"] = [b"conv1/kernel:0"]
    root.create_group("empty").attrs["weight_names"] = []
    root["conv1"]["conv1/kernel:0"] = np.ones([2])
  variables = {"conv1/kernel": tf.Variable(tf.zeros([2]))}
  warm_start.apply(str(tmp_path / "a.h5"), variables)
  np.testing.assert_array_equal(variables["conv1/kernel"].numpy(), [1, 1])


@pytest.mark.parametrize("name", ["a.weights.h5", "a.keras"])
def test_damaged_files(name, tmp_path):
  model = anew(network)
  (model.save_weights if "weights" in name else model.save)(tmp_path / name)
  whole = (tmp_path / name).read_bytes()
  for data in (b"", b"nonsense", whole[: len(whole) // 2]):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(
      errors.CheckpointDamagedError, match=f"Cannot read .*{name} as a weights file of Keras: "
    ):
      keras_weights.read(str(tmp_path / name))


def test_an_archive_without_weights(tmp_path):
  with h5py.File(tmp_path / "a.weights.h5", "w") as file:
    file.create_group("layers/dense/vars")
  with pytest.raises(errors.CheckpointDamagedError, match="it has no values"):
    keras_weights.read(str(tmp_path / "a.weights.h5"))
