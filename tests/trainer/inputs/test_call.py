"""An input_fn is called by the rules, and what it gives is checked before anything is compiled."""

import collections
import dataclasses
import functools

import pytest
import tensorflow as tf

from tests.trainer import programs
from trainer import errors
from trainer.inputs import call as inputs


def call(input_fn, kind="train", batch_size=4, seed=1, **params):
  return inputs.call(input_fn, params, batch_size, seed, kind)


def dataset_of(*tensors, batch=4):
  dataset = tf.data.Dataset.from_tensor_slices(tensors if len(tensors) > 1 else tensors[0])
  return dataset.batch(batch, drop_remainder=True)


# ------------------------------------------------------------------- the call


def test_params_are_a_copy_with_the_batch_size():
  given = {"path": "p"}

  def input_fn(params):
    assert params == {"path": "p", "batch_size": 4}
    params["path"] = "other"
    return tf.data.Dataset.range(8).batch(4)

  inputs.call(input_fn, given, 4, 1, "train")
  assert given == {"path": "p"}


def test_an_input_fn_need_not_take_params():
  assert call(lambda: tf.data.Dataset.range(8).batch(4)).element_spec[0].shape.rank == 1


def test_the_input_context_is_given_to_who_takes_it():
  contexts = []

  def input_fn(params, input_context):
    contexts.append(input_context)
    return tf.data.Dataset.range(8).batch(4)

  context = tf.distribute.InputContext(
    num_input_pipelines=2, input_pipeline_id=1, num_replicas_in_sync=8
  )
  inputs.call(input_fn, {}, 4, 1, "train", context)
  assert contexts == [context]


def test_the_estimator_tells_of_its_replicas(tmp_path, device):
  contexts = []

  def input_fn(params, input_context):
    contexts.append(
      (
        input_context.input_pipeline_id,
        input_context.num_input_pipelines,
        input_context.num_replicas_in_sync,
      )
    )
    return programs.train_input(params)

  estimator = programs.estimator(tmp_path, device=device)
  estimator.trace("train", input_fn)
  assert contexts == [(0, 1, estimator.device.replicas)]


def test_shuffling_follows_the_run_seed():
  def input_fn(params):
    return tf.data.Dataset.range(50).shuffle(50).batch(50)

  first, again, other = (
    next(iter(call(input_fn, seed=seed)))[0].numpy().tolist() for seed in (1, 1, 2)
  )
  assert first == again != other
  assert sorted(first) == list(range(50))


def test_pipelines_without_context_take_turns_with_batches():
  def batches(pipeline):
    context = tf.distribute.InputContext(
      num_input_pipelines=2, input_pipeline_id=pipeline, num_replicas_in_sync=2
    )
    dataset = inputs.call(
      lambda params: tf.data.Dataset.range(12).batch(2), {}, 2, 1, "train", context
    )
    return [features.numpy().tolist() for (features,) in dataset]

  assert batches(0) == [[0, 1], [4, 5], [8, 9]]
  assert batches(1) == [[2, 3], [6, 7], [10, 11]]


@dataclasses.dataclass
class Source:
  """An input_fn that is an object, of which Python makes no hash."""

  count: int

  def __call__(self, params):
    return programs.examples(self.count)(params)


@pytest.mark.parametrize(
  "input_fn",
  [
    pytest.param(programs.examples(16), id="function"),
    pytest.param(
      functools.partial(lambda params, count: programs.examples(count)(params), count=16),
      id="partial",
    ),
    pytest.param(Source(16), id="object"),
    pytest.param(Source(16).__call__, id="bound method"),
  ],
)
def test_any_callable_is_an_input_fn(input_fn, tmp_path):
  estimator = programs.estimator(tmp_path).train(programs.train_input, steps=1)
  assert len(list(estimator.predict(input_fn))) == 16


# ------------------------------------------------------------------- mistakes


def _raises(params):
  raise FileNotFoundError("no such file: train.csv")


Pair = collections.namedtuple("Pair", "a b c")

MISTAKES = {
  "not callable": (
    tf.data.Dataset.range(4),
    errors.SettingError,
    r"The train input_fn must be "
    r"callable.*run.train_input_fn "
    r"= @my_data.input_fn",
  ),
  "None": (
    lambda params: None,
    errors.SpecError,
    r"must return a tf.data.Dataset .* it returned "
    r"None \(missing return statement\?\)",
  ),
  "tensors": (
    lambda params: (tf.zeros([4, 2]), tf.zeros([4])),
    errors.SpecError,
    "returned tuple: tensors must come from a dataset",
  ),
  "tensor": (lambda params: tf.zeros([4, 2]), errors.SpecError, "tensors must come from a dataset"),
  "dict": (
    lambda params: {"x": tf.zeros([4, 2])},
    errors.SpecError,
    "returned dict: tensors must come from a dataset",
  ),
  "iterator": (
    lambda params: iter(tf.data.Dataset.range(4)),
    errors.SpecError,
    "it returned OwnedIterator",
  ),
  "a tuple of four": (
    lambda params: dataset_of(*[tf.zeros([8, 1])] * 4),
    errors.SpecError,
    "its elements are tuples of 4",
  ),
  "another argument": (
    lambda p: dataset_of(tf.zeros([8, 1])),
    errors.SettingError,
    "has the argument 'p' without a value: expected params, input_context, start, or a default",
  ),
  "raises": (
    _raises,
    errors.InputError,
    "train input_fn _raises raised FileNotFoundError: no such file: train.csv",
  ),
}


@pytest.mark.parametrize("input_fn, error, message", MISTAKES.values(), ids=MISTAKES)
def test_what_is_no_input_is_one_sentence(input_fn, error, message, tmp_path):
  estimator = programs.estimator(tmp_path / "model")
  with pytest.raises(error, match=message):
    estimator.train(input_fn, steps=1)
  assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("device", ["cpu", "cpu:2"])
def test_shapes_may_differ_from_batch_to_batch_on_one_core(tmp_path, device):
  def input_fn(params):
    dataset = programs.examples(16)(params).unbatch().batch(params["batch_size"])
    return dataset.take(2).concatenate(dataset.take(1).unbatch().batch(params["batch_size"] - 1))

  estimator = programs.estimator(tmp_path, device=device, static_shapes=False)
  if device == "cpu":
    assert estimator.train(input_fn).latest_step() == 4  # of 8, 8, 7 and 1 examples
  else:
    with pytest.raises(errors.InputError, match="drop_remainder=True"):
      estimator.train(input_fn)


def test_mistakes_of_shape_are_found_before_anything_is_written(tmp_path):
  with pytest.raises(errors.InputError, match="drop_remainder=True"):
    programs.estimator(tmp_path / "model").train(programs.examples(16), steps=1)
  assert not (tmp_path / "model").exists()


def test_labels_of_the_wrong_shape_name_what_was_given(tmp_path):
  def input_fn(params):
    return programs.train_input(params).map(lambda features, y: (features, tf.stack([y, y, y], 1)))

  with pytest.raises(
    errors.ModelFnError,
    match=r"model_fn line failed in mode "
    r'\'train\'.*features\["x"\] float32\[8, 3\], '
    r"labels float32\[8, 3\]",
  ):
    programs.estimator(tmp_path, programs.line).train(input_fn, steps=1)


def test_too_large_batch_is_reported_in_one_sentence(tmp_path):
  """Their size is not in the shape: it shows when they come."""

  def input_fn(params):
    return programs.examples(24)({"batch_size": 12})

  estimator = programs.estimator(tmp_path).train(programs.train_input, steps=1)
  with pytest.raises(errors.InputError, match="per-core batch size, 8"):
    estimator.evaluate(input_fn)
