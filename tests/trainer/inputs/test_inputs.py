"""An input_fn is called by the rules, and what it gives is checked before anything is compiled."""

import collections
import dataclasses
import functools
import time
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf

from tests.trainer import programs
from trainer import errors
from trainer.inputs import call as inputs
from trainer.inputs import elements as elements_lib
from trainer.inputs import groups as groups_lib


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


def test_pipelines_that_know_of_no_context_take_turns_with_the_batches():
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
    r"None \(is a return statement missing\?\)",
  ),
  "tensors": (
    lambda params: (tf.zeros([4, 2]), tf.zeros([4])),
    errors.SpecError,
    "returned tuple: tensors have to come from a dataset",
  ),
  "tensor": (
    lambda params: tf.zeros([4, 2]),
    errors.SpecError,
    "tensors have to come from a dataset",
  ),
  "dict": (
    lambda params: {"x": tf.zeros([4, 2])},
    errors.SpecError,
    "returned dict: tensors have to come from a dataset",
  ),
  "iterator": (
    lambda params: iter(tf.data.Dataset.range(4)),
    errors.SpecError,
    "it returned OwnedIterator",
  ),
  "a tuple of three": (
    lambda params: dataset_of(*[tf.zeros([8, 1])] * 3),
    errors.SpecError,
    "its elements are tuples of 3",
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


def ragged(params):
  return tf.data.Dataset.from_tensors({"words": tf.ragged.constant([[1], [2, 3], [], [4]])})


def unknown_rank(params):
  def generate():
    yield np.zeros([4, 2], np.float32)

  return tf.data.Dataset.from_generator(generate, output_types=tf.float32)


def unknown_axis(params):
  def generate():
    yield np.zeros([4, 2], np.float32)

  return tf.data.Dataset.from_generator(
    generate, output_signature=tf.TensorSpec([4, None], tf.float32)
  )


SHAPES = {
  "ragged": (
    ragged,
    "train",
    r'features\["words"\] \(train\) is a RaggedTensorSpec: make it '
    r"dense",
  ),
  "unknown rank": (
    unknown_rank,
    "train",
    r"features \(train\) has shape <unknown>: the first "
    r"axis must be the batch",
  ),
  "scalar": (
    lambda params: tf.data.Dataset.range(4),
    "eval",
    r"features \(eval\) has shape "
    r"\(\): the first axis must be the "
    r"batch",
  ),
  "unknown batch": (
    lambda params: tf.data.Dataset.from_tensor_slices({"image": tf.zeros([8, 32, 32, 3])}).batch(4),
    "train",
    r'features\["image"\] has shape \(None, 32, 32, 3\): batch with drop_remainder=True',
  ),
  "another batch": (
    lambda params: dataset_of(tf.zeros([8, 2]), tf.zeros([8]), batch=2),
    "train",
    r'features \(train\) has shape \(2, 2\): the batch must be params\["batch_size"\], which '
    r"is 4",
  ),
  "another batch of labels": (
    lambda params: tf.data.Dataset.from_tensors((tf.zeros([4, 2]), {"y": tf.zeros([3])})),
    "eval",
    r'labels\["y"\] \(eval\) has shape \(3\): the batch must be params\["batch_size"\], which '
    r"is 4",
  ),
  "unknown axis": (
    unknown_axis,
    "predict",
    r"features \(predict\) has shape \(4, None\): pad or "
    r"resize",
  ),
}


@pytest.mark.parametrize("input_fn, kind, message", SHAPES.values(), ids=SHAPES)
def test_shapes_that_no_device_can_use(input_fn, kind, message):
  with pytest.raises(errors.InputError, match=message):
    elements_lib.check_shapes(call(input_fn, kind), 4, kind)


@pytest.mark.parametrize("kind", ["eval", "predict"])
def test_the_batch_may_be_open_where_it_is_padded(kind):
  elements_lib.check_shapes(call(programs.examples(6), kind), 4, kind)


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


def test_batches_that_are_larger_than_the_batch_size_are_one_sentence(tmp_path):
  """Their size is not in the shape: it shows when they come."""

  def input_fn(params):
    return programs.examples(24)({"batch_size": 12})

  estimator = programs.estimator(tmp_path).train(programs.train_input, steps=1)
  with pytest.raises(errors.InputError, match="per-core batch size, 8"):
    estimator.evaluate(input_fn)


# ------------------------------------------------------------------- the paths


def test_named_leaves_of_any_structure():
  Point = collections.namedtuple("Point", "x y")
  element = ({"image": 1, "pair": (2, {"z": 3}), "point": Point(4, 5)}, 6)
  assert elements_lib.named_leaves(element) == [
    ('features["image"]', 1),
    ('features["pair"][0]', 2),
    ('features["pair"][1]["z"]', 3),
    ('features["point"].x', 4),
    ('features["point"].y', 5),
    ("labels", 6),
  ]


# ------------------------------------------------------------------- groups


def groups(count, per_core, replicas):
  """[(values [replicas, per_core], rows)] of the numbers from 1 to count."""
  dataset = tf.data.Dataset.range(1, count + 1).batch(per_core).map(lambda numbers: (numbers,))
  grouped = groups_lib.group(dataset, per_core, replicas)
  assert grouped.element_spec[0][0].shape == [replicas, per_core]
  assert grouped.element_spec[1].shape == [replicas]
  return [(element[0].numpy().tolist(), rows.numpy().tolist()) for element, rows in grouped]


def ungrouped(group):
  """The examples of a group that are real, in order: an element whose first axis is theirs."""
  element, rows = group
  real = tf.sequence_mask(rows, tf.nest.flatten(element)[0].shape[1])
  return tf.nest.map_structure(lambda tensor: tf.boolean_mask(tensor, real), element)


def test_the_tail_is_padded_and_counted():
  assert groups(7, per_core=2, replicas=3) == [
    ([[1, 2], [3, 4], [5, 6]], [2, 2, 2]),
    ([[7, 0], [0, 0], [0, 0]], [1, 0, 0]),
  ]
  assert groups(3, per_core=2, replicas=1) == [([[1, 2]], [2]), ([[3, 0]], [1])]
  assert groups(4, per_core=2, replicas=2) == [([[1, 2], [3, 4]], [2, 2])]
  assert groups(0, per_core=2, replicas=2) == []


@pytest.mark.parametrize(("per_core", "replicas"), [(4, 1), (2, 3)])
def test_the_examples_of_groups_come_back_without_the_padding(per_core, replicas):
  dataset = tf.data.Dataset.from_tensor_slices(
    (tf.range(11), tf.strings.as_string(tf.range(11)))
  ).batch(per_core)
  elements = [ungrouped(group) for group in groups_lib.group(dataset, per_core, replicas)]
  numbers, texts = (np.concatenate(parts) for parts in zip(*elements, strict=True))
  assert numbers.tolist() == list(range(11))
  assert texts.tolist() == [str(number).encode() for number in range(11)]


def test_strings_are_padded_too():
  dataset = tf.data.Dataset.from_tensor_slices(["a", "b", "c"]).batch(2).map(lambda text: (text,))
  (text,), rows = next(iter(groups_lib.group(dataset, 2, 2)))
  assert text.numpy().tolist() == [[b"a", b"b"], [b"c", b""]]
  assert rows.numpy().tolist() == [2, 1]


def test_broadcast_groups_count_once():
  dataset = tf.data.Dataset.range(1, 4).batch(2).map(lambda numbers: (numbers,))
  found = [
    (element[0].numpy().tolist(), rows.numpy().tolist())
    for element, rows in groups_lib.group(dataset, 2, 2, broadcast=True)
  ]
  assert found == [([[1, 2], [1, 2]], [2, 0]), ([[3, 0], [3, 0]], [1, 0])]


@pytest.mark.parametrize(("replicas", "broadcast"), [(1, False), (2, False), (2, True)])
def test_a_second_evaluation_traces_no_padding(replicas, broadcast):
  dataset = tf.data.Dataset.range(30).batch(13).map(lambda numbers: ({"numbers": numbers},))
  with mock.patch.object(groups_lib, "_padded", wraps=groups_lib._padded) as padded:
    first = list(groups_lib.group(dataset, 13, replicas, broadcast))
    traced = padded.call_count
    second = list(groups_lib.group(dataset, 13, replicas, broadcast))
  assert traced
  assert padded.call_count == traced
  tf.nest.map_structure(np.testing.assert_array_equal, first, second)


def test_host_batches_are_cut_in_order():
  dataset = tf.data.Dataset.range(8).batch(4, drop_remainder=True).map(lambda numbers: (numbers,))
  cut = groups_lib.cut(dataset, 2)
  assert [numbers.numpy().tolist() for (numbers,) in cut] == [[0, 1], [2, 3], [4, 5], [6, 7]]
  assert cut.element_spec[0].shape == [2]


# ------------------------------------------------------------------- tuning


def tuned(dataset):
  return dataset.options().autotune.enabled


def test_what_the_loops_take_is_not_tuned(tmp_path):
  """Tuning's thread sleeps for up to a minute, and an iterator that ends has to wait for it."""
  estimator = programs.estimator(tmp_path)
  with mock.patch.object(groups_lib, "_cores", return_value=range(16)):
    assert tuned(estimator._parts.feeder.for_loop("train", programs.train_input)) is False
    assert tuned(estimator._parts.feeder.for_loop("eval", programs.examples(12))) is False
    assert (
      tuned(
        groups_lib.group(tf.data.Dataset.range(8).batch(2).map(lambda numbers: (numbers,)), 2, 2)
      )
      is False
    )


def test_large_hosts_are_tuned_as_ever():
  with mock.patch.object(groups_lib, "_cores", return_value=range(17)):
    assert tuned(groups_lib.without_tuning(tf.data.Dataset.range(8))) is None


@pytest.mark.parametrize("wanted", [True, False])
def test_what_a_dataset_says_of_tuning_is_kept(wanted):
  options = tf.data.Options()
  options.autotune.enabled = wanted
  options.deterministic = False
  with mock.patch.object(groups_lib, "_cores", return_value=range(2)):
    dataset = groups_lib.without_tuning(tf.data.Dataset.range(8).with_options(options))
  assert tuned(dataset) is wanted
  assert dataset.options().deterministic is False


def test_training_data_are_read_ahead_once():
  def is_read_ahead(dataset):
    seen = []

    def look(x):
      seen.append(int(x))
      return x

    iterator = iter(
      groups_lib.read_ahead(dataset(lambda x: tf.numpy_function(look, [x], tf.int64)))
    )
    next(iterator)
    deadline = time.monotonic() + 30
    while len(seen) < 2 and time.monotonic() < deadline:
      time.sleep(0.01)
    return len(seen) > 1

  options = tf.data.Options()
  options.deterministic = True
  numbers = tf.data.Dataset.range(10)
  assert is_read_ahead(lambda look: numbers.map(look))
  assert is_read_ahead(lambda look: numbers.map(look).with_options(options))
  ahead = numbers.prefetch(3)
  assert groups_lib.read_ahead(ahead)._input_dataset is ahead
  assert groups_lib.read_ahead(ahead.with_options(options))._input_dataset._input_dataset is ahead
