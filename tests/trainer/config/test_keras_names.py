"""What configs name without any Python: Keras's objects and the optimizers of tf.compat.v1,
with parameters that reach them.
"""

import gin
import keras
import pytest
import tensorflow as tf

from trainer import config, errors
from trainer.config import keras_names


@pytest.fixture(autouse=True)
def _registered():
  keras_names.register()


@pytest.mark.parametrize(
  ("name", "value"),
  [
    ("keras.optimizers.Adam", keras.optimizers.Adam),
    ("Adam", keras.optimizers.Adam),
    ("keras.optimizers.schedules.ExponentialDecay", keras.optimizers.schedules.ExponentialDecay),
    ("keras.losses.Huber", keras.losses.Huber),
    ("keras.losses.mean_squared_error", keras.losses.mean_squared_error),
    ("keras.metrics.SparseTopKCategoricalAccuracy", keras.metrics.SparseTopKCategoricalAccuracy),
    ("keras.activations.gelu", keras.activations.gelu),
    ("keras.initializers.HeNormal", keras.initializers.HeNormal),
    ("keras.regularizers.L2", keras.regularizers.L2),
    ("tf.compat.v1.train.AdamOptimizer", tf.compat.v1.train.AdamOptimizer),
    ("MomentumOptimizer", tf.compat.v1.train.MomentumOptimizer),
    ("relu", keras.activations.relu),
    # As gin.tf names them.
    ("tf.train.AdamOptimizer", tf.compat.v1.train.AdamOptimizer),
    ("train.AdamOptimizer", tf.compat.v1.train.AdamOptimizer),
    ("tf.train.exponential_decay", tf.compat.v1.train.exponential_decay),
    ("tf.losses.huber_loss", tf.compat.v1.losses.huber_loss),
    ("huber_loss", tf.compat.v1.losses.huber_loss),
    ("tf.nn.relu", tf.nn.relu),
    ("tf.keras.optimizers.Adam", keras.optimizers.Adam),
    ("tf.keras.optimizers.schedules.CosineDecay", keras.optimizers.schedules.CosineDecay),
  ],
)
def test_names_are_those_of_keras_and_of_gin_tf(name, value):
  assert gin.config._REGISTRY.get_match(name).wrapped is value


def test_every_optimizer_of_keras_is_there():
  public = [
    value
    for value in vars(keras.optimizers).values()
    if isinstance(value, type) and issubclass(value, keras.optimizers.Optimizer)
  ]
  assert len(public) > 10
  for optimizer in public:
    assert (
      gin.config._REGISTRY.get_match(f"keras.optimizers.{optimizer.__name__}").wrapped is optimizer
    )


@pytest.mark.parametrize(
  "name",
  [
    "keras.optimizers.get",
    "keras.losses.deserialize",
    "tf.compat.v1.train.Saver",
    "keras.optimizers.legacy.Adam",
  ],
)
def test_what_is_no_such_object_is_not_there(name):
  assert name not in gin.config._REGISTRY


def test_registering_again_does_nothing():
  before = len(gin.config._REGISTRY)
  gin.finalize()  # a locked configuration takes no registrations
  keras_names.register()
  assert len(gin.config._REGISTRY) == before


@pytest.fixture
def program():
  """Registers as gin.tf does, or a program that has no gin.tf; forgets it at the end."""
  registered = []

  def register(value, module):
    registered.append(f"{module}.{value.__name__}")
    return gin.external_configurable(value, module=module)

  yield register
  gin.clear_config()
  for selector in registered:
    gin.config._REGISTRY.pop(selector)


@pytest.mark.parametrize("name", ["AdamOptimizer", "train.AdamOptimizer", "tf.train.AdamOptimizer"])
def test_what_a_program_registers_itself_is_taken(program, name):
  program(tf.compat.v1.train.AdamOptimizer, "tf.train")
  assert gin.get_configurable(name) is gin.get_configurable("tf.train.AdamOptimizer")
  assert gin.config._REGISTRY.get_match(name).selector == "tf.train.AdamOptimizer"


def test_several_of_a_program_are_ambiguous_as_ever(program):
  program(tf.compat.v1.losses.mean_squared_error, "tf.losses")
  assert gin.config._REGISTRY.get_match("mean_squared_error").module == "tf.losses"  # Keras has two
  program(keras.losses.mean_squared_error, "mine")
  with pytest.raises(KeyError, match="Ambiguous selector 'mean_squared_error'"):
    gin.get_configurable("mean_squared_error")


PUBLISHED = """
import gin.tf.external_configurables
train.optimizer = @tf.train.AdamOptimizer()
tf.train.AdamOptimizer.learning_rate = 0.00025
tf.train.AdamOptimizer.epsilon = 0.0003125
train.activation = @tf.nn.relu
"""


def test_a_published_config_works_as_it_is(program):
  def train(optimizer=None, activation=None):
    return optimizer, activation

  train = program(train, "published")
  config.load([], [PUBLISHED], root=None)
  optimizer, activation = train()
  assert type(optimizer) is tf.compat.v1.train.AdamOptimizer
  assert (optimizer._lr, optimizer._epsilon) == (0.00025, 0.0003125)
  assert activation(-1.0) == 0
  assert "v1.train.AdamOptimizer.learning_rate = 0.00025" in config.parsed_text()


@pytest.mark.parametrize(
  ("binding", "message"),
  [
    (
      "keras.optimizers.Adam.learning_rat = 1",
      r"keras\.optimizers\.Adam has no parameter "
      r"learning_rat\. Did you mean learning_rate\?",
    ),
    (
      "AdamW.global_clipnrm = 1",
      r"AdamW has no parameter global_clipnrm\. Did you mean "
      r"global_clipnorm",
    ),
    (
      "MomentumOptimizer.momentun = 1",
      r"MomentumOptimizer has no parameter momentun\. Did you "
      r"mean momentum\?",
    ),
  ],
)
def test_misspelt_parameter_is_reported_despite_keras_kwargs(binding, message):
  with pytest.raises(errors.SettingError, match=message):
    config.load([], [binding], root=None)


def test_a_name_that_this_keras_does_not_have():
  message = "no configurable has the name keras.optimizers.Adem. Did you mean .*Adam"
  with pytest.raises(errors.SettingError, match=message):
    config.load([], ["keras.optimizers.Adem.learning_rate = 1"], root=None)


def test_parameters_of_bases_are_accepted():
  config.load(
    [],
    ["keras.optimizers.Adamax.name = 'mine'\nkeras.optimizers.Adamax.weight_decay = 0.5"],
    root=None,
  )
  made = gin.get_configurable("keras.optimizers.Adamax")()
  assert (made.name, made.weight_decay) == ("mine", 0.5)


def test_parameters_reach_what_is_made():
  gin.parse_config("""
      keras.optimizers.Adam.learning_rate = @keras.optimizers.schedules.CosineDecay()
      keras.optimizers.Adam.beta_1 = 0.5
      CosineDecay.initial_learning_rate = 0.25
      CosineDecay.decay_steps = 10
      tf.compat.v1.train.MomentumOptimizer.learning_rate = 0.5
      tf.compat.v1.train.MomentumOptimizer.momentum = 0.75
      keras.activations.leaky_relu.negative_slope = 0.5
      keras.initializers.Constant.value = 3.0
      keras.regularizers.L2.l2 = 2.0
  """)
  adam = gin.get_configurable("Adam")()
  assert type(adam) is keras.optimizers.Adam
  assert adam.beta_1 == 0.5
  variable = keras.Variable([1.0])
  rates = []
  for _ in range(11):
    rates.append(float(adam.learning_rate))
    adam.apply([tf.constant([1.0])], [variable])
  assert rates[0] == 0.25
  assert 0 < rates[5] < 0.15
  assert rates[10] == pytest.approx(0)
  assert gin.get_configurable("MomentumOptimizer")()._momentum == 0.75
  assert float(gin.get_configurable("keras.regularizers.L2")()(tf.constant([1.0, 1.0]))) == 4.0
  layer = keras.layers.Dense(
    1,
    activation=gin.get_configurable("leaky_relu"),
    kernel_initializer=gin.get_configurable("keras.initializers.Constant")(),
  )
  assert float(tf.function(layer)(tf.constant([[-1.0]]))[0, 0]) == -1.5
