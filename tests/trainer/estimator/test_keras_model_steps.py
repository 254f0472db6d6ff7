"""What Keras's `fit` does, Octet does as well or refuses: no difference is silent."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import trainer
from tests.trainer.estimator import keras_programs
from trainer import errors
from trainer.checkpoints import into_keras
from trainer.estimator import keras_model

BATCH = 16


def _loss(**kwargs):
  return keras.losses.SparseCategoricalCrossentropy(from_logits=True, **kwargs)


def _estimator(tmp_path, build, device="cpu", precision="float32", **settings):
  return trainer.Estimator(
    keras_model.model_fn_from_keras(build, **settings),
    str(tmp_path),
    trainer.RunConfig(device=device, precision=precision),
    train_batch_size=BATCH,
    eval_batch_size=BATCH,
  )


def _refused(tmp_path, message, build=keras_programs.functional, device="cpu", **settings):
  estimator = _estimator(tmp_path, build, device, **settings)
  with pytest.raises(errors.SettingError, match=message):
    estimator.train(keras_programs.train_input_fn, max_steps=1)


def _masked():
  bias = keras.initializers.Constant([5.0, 0.0])
  return keras.Sequential(
    [
      keras.Input([8]),
      keras.layers.Embedding(5, 4, mask_zero=True),
      keras.layers.Dense(2, bias_initializer=bias),
    ]
  )


@pytest.mark.parametrize(
  "device, precision", [("cpu", "float32"), ("cpu", "bfloat16"), ("cpu:2", "float32")]
)
def test_losses_and_metrics_leave_out_masked_places(tmp_path, device, precision):
  words = np.random.RandomState(0).randint(1, 5, [2 * BATCH, 8])
  words[:, 5:] = 0
  labels = (words == 0).astype(np.int32)  # where the bias is wrong

  def input_fn(params):
    dataset = tf.data.Dataset.from_tensor_slices((words, labels))
    return dataset.batch(params["batch_size"], drop_remainder=True)

  settings = dict(loss=_loss(), optimizer="sgd", metrics=["accuracy"])
  estimator = _estimator(tmp_path, _masked, device, precision, **settings)
  estimator.train(input_fn, max_steps=1)
  found = estimator.evaluate(input_fn)
  model = into_keras.load_into_keras(tmp_path, _masked)
  model.compile(**settings)
  expected = model.evaluate(words, labels, BATCH, verbose=0, return_dict=True)
  assert expected["loss"] < 0.1
  assert found["accuracy"] == pytest.approx(expected["accuracy"])  # 1 with a newer Keras
  assert found["loss"] == pytest.approx(
    expected["loss"], rel=1e-5 if precision == "float32" else 0.05
  )


class Plain(keras.Model):
  def __init__(self):
    super().__init__()
    self.flatten = keras.layers.Flatten()
    self.dense = keras.layers.Dense(3)

  def call(self, image):
    return self.dense(self.flatten(image))


class Own(Plain):
  """A model with a loss of its own, as in Keras's guide; with no argument `training`."""

  def __init__(self):
    super().__init__()
    self.tracker = keras.metrics.Mean(name="tracker")

  def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None):
    loss = keras.ops.mean((y_pred - keras.ops.one_hot(y, 3) - self.flatten(x)[:, :1]) ** 2)
    self.tracker.update_state(loss)
    return loss


@pytest.mark.parametrize("device", ["cpu", "cpu:2"])
def test_a_model_with_its_own_loss_trains_as_in_keras(tmp_path, device):
  estimator = _estimator(tmp_path, Own, device, optimizer=keras.optimizers.SGD(0.1))
  estimator.train(keras_programs.train_input_fn, max_steps=3)
  features, _ = keras_programs.data()

  def build():
    model = Own()
    model(features["image"])
    return model

  model = into_keras.load_into_keras(estimator.checkpoint_path(0), build)
  model.compile(keras.optimizers.SGD(0.1))
  batches = keras_programs.train_input_fn({"batch_size": BATCH}).take(3)
  model.fit(batches.map(lambda features, labels: (features["image"], labels)), verbose=0)
  trained = into_keras.load_into_keras(tmp_path, build)
  for ours, theirs in zip(trained.dense.weights, model.dense.weights, strict=True):
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("step", ["train_step", "test_step", "predict_step", "compute_metrics"])
def test_a_model_with_its_own_step_is_refused(tmp_path, step):
  own = type("Stepping", (Plain,), {step: lambda self, *args: None})
  settings = dict(keras_programs.SETTINGS)
  _refused(tmp_path, f"the model Stepping has its own {step}", own, **settings)
  restored = type("Restored", (own,), {step: getattr(keras.Model, step)})
  _estimator(tmp_path, restored, **settings).train(keras_programs.train_input_fn, max_steps=1)


class _Boosted(keras.optimizers.SGD):
  def __init__(self, learning_rate=0.01, boost=1.0, **kwargs):
    super().__init__(learning_rate, **kwargs)
    self.boost = boost


class _Scaled(keras.metrics.Metric):
  def __init__(self, scale=1.0, name="scaled", **kwargs):
    super().__init__(name=name, **kwargs)
    self._scale = scale
    self.total = self.add_weight(name="total", initializer="zeros")

  def update_state(self, y_true, y_pred, sample_weight=None):
    self.total.assign_add(self._scale)

  def result(self):
    return self.total


class _Configured(_Scaled):
  def get_config(self):
    return super().get_config() | {"scale": self._scale}


class _Needs(_Scaled):
  def __init__(self, scale, name="needs", **kwargs):
    super().__init__(scale, name=name, **kwargs)


def _evaluated(tmp_path, metric):
  settings = dict(keras_programs.SETTINGS, metrics=[metric])
  estimator = _estimator(tmp_path, keras_programs.functional, **settings)
  estimator.train(keras_programs.train_input_fn, max_steps=1)
  return estimator.evaluate(keras_programs.train_input_fn, steps=2)


def test_a_copy_unlike_its_metric_is_refused(tmp_path):
  with pytest.raises(errors.SettingError, match="copies _Scaled .* another scale; let its get_con"):
    _evaluated(tmp_path / "scaled", _Scaled(5.0))
  with pytest.raises(
    errors.SettingError, match="copies _Needs .*missing 1 required .*'scale'; let"
  ):
    _evaluated(tmp_path / "needs", _Needs(5.0))
  assert _evaluated(tmp_path / "same", _Scaled())["scaled"] == 2.0
  assert _evaluated(tmp_path / "configured", _Configured(5.0))["scaled"] == 10.0


def test_a_copy_unlike_its_optimizer_is_refused(tmp_path):
  settings = dict(keras_programs.SETTINGS, optimizer=_Boosted(boost=2.0))
  _refused(tmp_path, "copies _Boosted .* another boost; .* or give a function", **settings)


class _Schedule(keras.optimizers.schedules.LearningRateSchedule):
  def __call__(self, step):
    return 0.1 / (keras.ops.cast(step, "float32") + 1.0)


def test_a_schedule_without_a_configuration(tmp_path):
  with pytest.raises(errors.SettingError, match="'_Schedule' must override .*optimizer=lambda"):
    keras_model.model_fn_from_keras(
      keras_programs.functional, _loss(), keras.optimizers.SGD(_Schedule())
    )
  settings = dict(keras_programs.SETTINGS, optimizer=lambda: keras.optimizers.SGD(_Schedule()))
  estimator = _estimator(tmp_path, keras_programs.functional, **settings)
  estimator.train(keras_programs.train_input_fn, max_steps=1)


@pytest.mark.parametrize("device", ["cpu", "cpu:2"])
def test_a_network_of_the_loss_does_not_train(tmp_path, device):
  def build():
    teacher = keras.Sequential([keras.layers.Dense(3, name="teacher")])
    model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(3, name="student")])
    model.compile("sgd", lambda labels, outputs: (teacher(outputs) - outputs) ** 2)
    return model

  estimator = _estimator(tmp_path, build, device)
  estimator.train(keras_programs.train_input_fn, max_steps=1)
  first, last = (tf.train.load_checkpoint(estimator.checkpoint_path(step)) for step in (0, 1))
  kernels = [name for name in estimator.get_variable_names() if name.endswith("kernel")]
  assert [
    name for name in kernels if not np.array_equal(first.get_tensor(name), last.get_tensor(name))
  ] == [name for name in kernels if "student" in name]
  assert len(kernels) == 2


@pytest.mark.parametrize("names", [["bias"], None])
def test_a_copy_excludes_the_same_variables_from_weight_decay(tmp_path, names):
  optimizer = keras.optimizers.SGD(0.1, weight_decay=0.5)
  model = keras_programs.functional()
  if names is None:
    optimizer.exclude_from_weight_decay(var_list=[model.weights[1]])
    settings = dict(keras_programs.SETTINGS, optimizer=optimizer)
    return _refused(tmp_path, "SGD excludes variables from weight decay by var_list", **settings)
  optimizer.exclude_from_weight_decay(var_names=names)

  def build():
    model = keras.Sequential(
      [keras.layers.Flatten(), keras.layers.Dense(3, bias_initializer="ones")]
    )
    model.build([None, 4, 4, 1])
    return model

  estimator = _estimator(
    tmp_path, build, loss=lambda labels, outputs: 0.0 * outputs, optimizer=optimizer
  )
  estimator.train(keras_programs.train_input_fn, max_steps=2)
  trained = into_keras.load_into_keras(tmp_path, build)
  begun = into_keras.load_into_keras(estimator.checkpoint_path(0), build)
  np.testing.assert_allclose(trained.weights[0], begun.weights[0] * 0.95**2, rtol=1e-6)
  np.testing.assert_array_equal(trained.weights[1], np.ones(3))


def test_settings_that_would_have_no_effect_are_refused(tmp_path):
  averaged = keras.optimizers.SGD(0.1, use_ema=True, ema_momentum=0.9)
  settings = dict(keras_programs.SETTINGS, optimizer=averaged)
  _refused(tmp_path, r"use_ema=True.*minimize\.ema_decay = 0\.9", **settings)
  summed = dict(keras_programs.SETTINGS, loss=_loss(reduction="sum"))
  _refused(tmp_path, r"reduction='sum', and Octet takes the mean over 2", device="cpu:2", **summed)


def test_a_loss_without_labels_is_named(tmp_path):
  estimator = _estimator(tmp_path, keras_programs.functional, **keras_programs.SETTINGS)
  with pytest.raises(errors.SettingError, match="needs labels, and the input_fn gives none"):
    estimator.train(
      lambda params: keras_programs.train_input_fn(params).map(lambda features, labels: features),
      max_steps=1,
    )


def test_a_compiled_model_without_any_loss_is_named(tmp_path):
  def build():
    model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(3)])
    model.compile("sgd")
    return model

  _refused(tmp_path, "build returns a model without a loss", build)


@pytest.mark.parametrize("device", ["cpu", "cpu:2"])
def test_a_layer_adapted_before_goes_with_the_model(tmp_path, device):
  images, labels = keras_programs.data()[0]["image"] * 3 + 7, keras_programs.data()[1]
  normalize = keras.layers.Normalization()
  normalize.adapt(tf.data.Dataset.from_tensor_slices(images).batch(4))

  def input_fn(params):
    dataset = tf.data.Dataset.from_tensor_slices((images, labels)).repeat(2)
    return dataset.batch(params["batch_size"], drop_remainder=True)

  def build():
    layers = [keras.Input((4, 4, 1)), normalize, keras.layers.Flatten(), keras.layers.Dense(3)]
    return keras.Sequential(layers)

  estimator = _estimator(tmp_path, build, device, **keras_programs.SETTINGS)
  estimator.train(input_fn, max_steps=1)
  found = [prediction["output"] for prediction in estimator.predict(input_fn)]
  model = into_keras.load_into_keras(tmp_path, build)
  given = np.concatenate([images] * 2)[: len(found)]
  np.testing.assert_allclose(model.predict(given, verbose=0), found, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
  "kind, settings, data",
  [
    ("Normalization", {}, np.ones([4, 1])),
    ("Discretization", {"num_bins": 2}, np.ones([4, 1])),
    ("StringLookup", {}, ["a", "b"]),
    ("IntegerLookup", {}, [1, 2]),
    ("TextVectorization", {}, ["a", "b"]),
  ],
)
def test_adapt_in_build_model_is_refused(tmp_path, kind, settings, data):
  def build():
    getattr(keras.layers, kind)(**settings).adapt(data)

  estimator = _estimator(tmp_path, build, **keras_programs.SETTINGS)
  with pytest.raises(errors.ModelFnError, match=rf"\({kind}\).*adapt the layer once, outside"):
    estimator.train(keras_programs.train_input_fn, max_steps=1)


@pytest.mark.parametrize(
  "setting, value", [("dtype_policy", "mixed_bfloat16"), ("floatx", "float64")]
)
def test_a_precision_set_in_keras_alone_is_refused(tmp_path, setting, value):
  model_fn = keras_model.model_fn_from_keras(keras_programs.functional, **keras_programs.SETTINGS)
  set_value = getattr(keras.config, f"set_{setting}")
  set_value(value)
  try:
    with pytest.raises(errors.SettingError, match=rf"{value}.*RunConfig\(precision='float32'\)"):
      keras_programs.estimator_of(model_fn, tmp_path)
    if setting == "dtype_policy":
      trainer.Estimator(model_fn, str(tmp_path), trainer.RunConfig(precision="bfloat16"))
  finally:
    set_value("float32")


def test_an_export_of_a_model_for_one_batch_size_names_the_size(tmp_path):
  def build():
    image = keras.Input((4, 4, 1), name="image")
    outputs = keras.layers.Dense(3)(keras.ops.reshape(image, [BATCH, 16]))
    return keras.Model(image, outputs)

  estimator = _estimator(tmp_path, build, **keras_programs.SETTINGS)
  estimator.train(keras_programs.train_input_fn, max_steps=1)
  with pytest.raises(
    errors.ModelFnError, match=r"any number of examples, .* image \[3, 4, 4, 1\]: .*reshape"
  ):
    estimator.export_saved_model(tmp_path / "export")
