"""The Estimator as a whole: its constructor, predict, and that what was built once is not built
again.
"""

import gc
import os
import threading

import numpy as np
import pytest
import tensorflow as tf

import trainer
from tests.trainer import programs
from trainer import errors
from trainer.programs import executor, predict_loop
from trainer.reporting import evaluations_file

# ---------------------------------------------------------------- constructor


def test_the_peers_names_are_ours():
  assert trainer.TPUEstimator is trainer.Estimator
  assert trainer.TPUEstimatorSpec is trainer.EstimatorSpec


def test_nothing_is_written_or_read_by_the_constructor(tmp_path):
  (tmp_path / "checkpoint").write_text("what is no checkpoint")
  programs.estimator(tmp_path / "model")
  programs.estimator(tmp_path)
  assert [path.name for path in tmp_path.iterdir()] == ["checkpoint"]


def test_model_dir_is_given_once_or_twice_the_same(tmp_path):
  def model_dir(argument, setting):
    return trainer.Estimator(
      programs.line, argument, trainer.RunConfig(device="cpu", model_dir=setting)
    ).model_dir

  path = str(tmp_path)
  assert model_dir(path, None) == model_dir(None, path) == model_dir(path, path + "/") == path
  with pytest.raises(
    errors.SettingError, match="model_dir is .*config.model_dir is .*set only one"
  ):
    model_dir(path, path + "/other")


def test_without_a_model_dir_it_is_a_new_one(caplog):
  with caplog.at_level("WARNING", logger="absl"):
    folders = {
      trainer.Estimator(programs.line, config=trainer.RunConfig(device="cpu")).model_dir
      for _ in range(2)
    }
  assert len(folders) == 2
  assert all(os.path.isdir(folder) for folder in folders)
  assert "No model_dir: writing to the temporary folder" in caplog.text


@pytest.mark.parametrize("config", [{"device": "cpu"}, "cpu", trainer.TPUConfig()])
def test_a_config_is_a_run_config(config, tmp_path):
  with pytest.raises(errors.SettingError, match="config must be a trainer.RunConfig"):
    trainer.Estimator(programs.line, str(tmp_path), config)


def test_batch_sizes_are_of_the_kinds_that_have_one(tmp_path):
  estimator = trainer.Estimator(
    programs.line,
    str(tmp_path),
    trainer.RunConfig(device="cpu:8"),
    train_batch_size=16,
    eval_per_core_batch_size=3,
  )
  sizes = {
    kind: (size.global_size, size.per_core) for kind, size in estimator.batch_sizes().items()
  }
  assert sizes == {"train": (16, 2), "eval": (24, 3), "predict": (24, 3)}


# -------------------------------------------------------------------- predict


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory):
  """A line with checkpoints at 0, 2 and 4."""
  path = tmp_path_factory.mktemp("model")
  programs.estimator(path, save_checkpoints_steps=2).train(programs.train_input, steps=4)
  return path


@pytest.fixture(scope="module")
def one_core(model_dir):
  return programs.estimator(model_dir, batch_size=16)


@pytest.fixture(scope="module")
def two_cores(model_dir):
  return programs.estimator(model_dir, device="cpu:2", batch_size=16)


@pytest.fixture(params=["one_core", "two_cores"])
def trained(request):
  """One core, and two; each is traced once for the whole file."""
  return request.getfixturevalue(request.param)


def line_of(estimator, count, step=4):
  x, _ = programs.arrays(count)
  reader = tf.train.load_checkpoint(os.path.join(estimator.model_dir, f"model.ckpt-{step}"))
  return x @ reader.get_tensor("w") + reader.get_tensor("b")


# The last: two calls of 32 batches, one of one, one of five examples.
@pytest.mark.parametrize("count", [0, 1, 5, 16, 37, 1045])
def test_every_example_is_predicted_once_and_in_order(trained, count):
  predictions = list(trained.predict(programs.examples(count)))
  assert [prediction["first"] for prediction in predictions] == programs.arrays(count)[0][
    :, 0
  ].tolist()
  np.testing.assert_allclose(
    [prediction["y"] for prediction in predictions], line_of(trained, count), atol=1e-6
  )


def test_batches_are_whole_and_of_real_examples(trained):
  batches = list(trained.predict(programs.examples(37), yield_single_examples=False))
  assert [len(batch["y"]) for batch in batches] == [16, 16, 5]
  np.testing.assert_allclose(
    np.concatenate([batch["y"] for batch in batches]), line_of(trained, 37), atol=1e-6
  )


def test_predictions_come_with_their_examples(trained):
  """The prediction "first" is part of the feature."""
  count = 0
  for prediction, (features, label) in trained.predict(programs.examples(21), with_examples=True):
    assert prediction["first"] == features["x"][0]
    assert label == programs.arrays(21)[1][count]
    count += 1
  assert count == 21
  (batch, (features, _)), *_ = trained.predict(
    programs.examples(21), ["first"], yield_single_examples=False, with_examples=True
  )
  assert list(batch) == ["first"]
  assert batch["first"].tolist() == features["x"][:, 0].tolist()


@pytest.mark.parametrize(
  ("is_known", "is_small", "least", "most"),
  [(True, True, 32, 40), (True, False, 16, 24), (False, True, 1, 8)],
)
def test_batches_are_predicted_in_groups_if_count_is_known(
  model_dir, is_known, is_small, least, most, monkeypatch
):
  """The next is made ready while one is predicted."""
  monkeypatch.setattr(executor, "is_light", lambda graph: is_small)
  monkeypatch.setattr(predict_loop, "_LARGE_GROUPS", 16)
  read = []

  def input_fn(params):
    dataset = programs.examples(70 * params["batch_size"])(params)
    dataset = dataset if is_known else dataset.filter(lambda features, label: True)

    def count(label):
      read.append(len(label))
      return label

    return dataset.map(
      lambda features, label: (
        features,
        tf.ensure_shape(tf.numpy_function(count, [label], tf.float32), label.shape),
      )
    )

  predictions = programs.estimator(model_dir, batch_size=16).predict(input_fn, with_examples=True)
  first, _ = next(predictions)
  assert least <= len(read) <= most
  rest = list(predictions)
  assert [first["first"], *(prediction["first"] for prediction, _ in rest)] == programs.arrays(
    70 * 16
  )[0][:, 0].tolist()
  assert [label for _, (_, label) in rest] == programs.arrays(70 * 16)[1][1:].tolist()


def test_predict_keys_choose(one_core):
  assert [
    list(prediction)
    for prediction in one_core.predict(programs.examples(2), predict_keys=["first"])
  ] == [["first"]] * 2


def test_features_alone_will_do(one_core):
  def input_fn(params):
    return programs.examples(5)(params).map(lambda features, labels: features)

  assert len(list(one_core.predict(input_fn))) == 5


@pytest.mark.parametrize(
  "call, error, message",
  [
    (
      lambda e: e.predict(programs.examples(5), ["class"]),
      errors.SettingError,
      "predict_keys has 'class'; the predictions are first, y",
    ),
    (lambda e: e.predict(None), errors.SettingError, "predict input_fn must be callable"),
    (lambda e: e.predict(lambda params: None), errors.SpecError, "returned None"),
    (
      lambda e: e.predict(programs.examples(5), checkpoint_path="nowhere"),
      errors.CheckpointNotFoundError,
      "There is no checkpoint at nowhere",
    ),
  ],
  ids=["keys", "input_fn", "input", "checkpoint"],
)
def test_mistakes_show_at_the_call(one_core, call, error, message):
  with pytest.raises(error, match=message):
    call(one_core)  # and not at the first next()


def test_without_a_checkpoint_predict_says_so_at_the_call(tmp_path):
  with pytest.raises(errors.CheckpointNotFoundError, match=r"no checkpoint in .*--model_dir"):
    programs.estimator(tmp_path).predict(programs.examples(5))


def test_keys_are_checked_whatever_was_traced_last(model_dir):
  estimator = programs.estimator(model_dir)
  for _ in range(2):
    assert len(list(estimator.predict(programs.examples(5), predict_keys=["y"]))) == 5
    estimator.evaluate(programs.examples(5))
  with pytest.raises(errors.SettingError, match="predict_keys has 'x'"):
    estimator.predict(programs.examples(5), predict_keys=["x"])


def test_predictions_that_are_one_tensor(model_dir):
  def model_fn(features, labels, mode, params):
    return trainer.EstimatorSpec(
      mode, predictions=programs.line(features, labels, mode, params).predictions["y"]
    )

  estimator = programs.estimator(model_dir, model_fn)
  np.testing.assert_allclose(
    list(estimator.predict(programs.examples(5))), line_of(estimator, 5), atol=1e-6
  )
  with pytest.raises(errors.SettingError, match="need a dict of predictions"):
    estimator.predict(programs.examples(5), predict_keys=["y"])


def test_open_generators_may_predict_different_checkpoints(trained):
  def predict(step, count):
    return trained.predict(
      programs.examples(count),
      checkpoint_path=os.path.join(trained.model_dir, f"model.ckpt-{step}"),
    )

  first, second, third = predict(2, 37), predict(4, 37), predict(2, 37)
  found = [[], [], []]
  for index, generator in enumerate((first, second, third)):
    for _ in range(3 + index):
      found[index].append(next(generator)["y"])
  result = trained.evaluate(
    programs.examples(43), checkpoint_path=os.path.join(trained.model_dir, "model.ckpt-0")
  )
  assert result["global_step"] == 0
  for index, generator in enumerate((first, second, third)):
    found[index] += [prediction["y"] for prediction in generator]
  for values, step in zip(found, (2, 4, 2), strict=True):
    np.testing.assert_allclose(values, line_of(trained, 37, step), atol=1e-6)


def test_generator_keeps_its_checkpoint_during_training(tmp_path):
  estimator = programs.estimator(tmp_path).train(programs.train_input, steps=2)
  generator = estimator.predict(programs.examples(20))
  first = [next(generator)["y"]]
  estimator.train(programs.train_input, steps=2)
  first += [prediction["y"] for prediction in generator]
  np.testing.assert_allclose(first, line_of(estimator, 20, 2), atol=1e-6)
  np.testing.assert_allclose(
    [prediction["y"] for prediction in estimator.predict(programs.examples(20))],
    line_of(estimator, 20, 4),
    atol=1e-6,
  )


def test_prediction_hooks_are_called_at_the_end(one_core):
  seen = []
  generator = one_core.predict(
    programs.examples(3), hooks=[lambda step, metrics, estimator: seen.append(step)]
  )
  assert len([next(generator) for _ in range(3)]) == 3
  assert seen == []
  assert next(generator, None) is None
  assert seen == [4]


def test_a_generator_that_is_dropped_half_way_does_no_harm(one_core):
  generator = one_core.predict(programs.examples(37))
  next(generator)
  generator.close()
  assert len(list(one_core.predict(programs.examples(37)))) == 37


# ----------------------------------------------------- built once, used again


@pytest.mark.long
def test_repeated_evaluations_and_predictions_keep_no_objects(model_dir):
  """15 of each: no call of model_fn, no variable, and no Python object that stays."""
  estimator = programs.estimator(model_dir, batch_size=16)

  def both():
    return estimator.evaluate(programs.examples(19)), len(
      list(estimator.predict(programs.examples(19)))
    )

  first = next(both() for _ in range(3))
  traces, variables = estimator.traces, set(estimator.variables)
  gc.collect()
  before = len(gc.get_objects())
  assert all(both() == first for _ in range(15))
  assert estimator.traces == traces
  assert set(estimator.variables) == variables
  gc.collect()
  # A function of TensorFlow is some thousand objects, a dataset some hundred; of thirty
  # datasets, none may stay.
  assert len(gc.get_objects()) - before < 2000


@pytest.mark.of_tensorflows_replicas
@pytest.mark.long_on_several_cores
def test_model_fn_is_called_once_for_each_replica_and_mode(tmp_path, device):
  estimator = programs.estimator(tmp_path, device=device)
  for _ in range(2):
    estimator.train(programs.train_input, steps=3)
    estimator.evaluate(programs.examples(16))
    list(estimator.predict(programs.examples(16)))
  replicas = estimator.device.replicas
  assert estimator.traces == {"train": replicas, "eval": replicas, "predict": replicas}


def test_trace_makes_a_step_that_the_next_call_uses(tmp_path):
  calls = []

  def input_fn(params):
    calls.append(params["batch_size"])
    return programs.train_input(params)

  estimator = programs.estimator(tmp_path)
  traced = estimator.trace("train", input_fn)
  assert (estimator.traces["train"], calls, list(tmp_path.iterdir())) == (1, [8], [])
  estimator.train(traced, steps=1)
  assert (estimator.traces["train"], calls) == (1, [8])
  estimator.train(traced, steps=1)  # which reads its input anew
  assert (estimator.traces["train"], calls) == (1, [8, 8])


def test_traced_input_serves_only_its_kind_and_position(tmp_path):
  calls = []

  def input_fn(params):
    calls.append(params["batch_size"])
    return programs.train_input(params)

  estimator = programs.estimator(tmp_path)
  traced = estimator.trace("train", input_fn)
  estimator.train(programs.train_input, steps=2)
  estimator.evaluate(traced, steps=1)  # of another kind
  estimator.train(traced, steps=1)  # from another place: the checkpoint has another's data position
  assert calls == [8, 8]  # the eval batch size is that of the train
  assert estimator.traces == {"train": 1, "eval": 1, "predict": 0}


@pytest.mark.parametrize("kind", ["train", "eval", "predict"])
def test_try_step_runs_one_and_writes_nothing(kind, tmp_path):
  estimator = programs.estimator(tmp_path / "model")
  said = estimator.try_step(kind, programs.train_input)
  assert said.startswith(f"one {kind} step in ")
  assert {"train": "loss 3", "eval": "absolute_error", "predict": "predictions"}[
    kind
  ] in said or "loss" in said
  assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("kind", ["train", "eval", "predict"])
def test_try_step_without_input(kind, tmp_path):
  with pytest.raises(
    errors.InputError,
    match=f"The {kind} input_fn .* gave no batch: its dataset is empty or too small",
  ):
    programs.estimator(tmp_path).try_step(kind, programs.batches(0))


def test_a_training_after_a_dry_step_starts_from_the_beginning(tmp_path):
  dry, plain = programs.estimator(tmp_path / "dry"), programs.estimator(tmp_path / "plain")
  dry.try_step("train", programs.train_input)
  for estimator in (dry, plain):
    estimator.train(programs.train_input, steps=2)
  assert dry.latest_step() == 2
  np.testing.assert_array_equal(dry.variables["w"].numpy(), plain.variables["w"].numpy())


def test_hook_may_not_load_other_values_during_training(tmp_path):
  def hook(step, metrics, estimator):
    estimator.evaluate(programs.examples(8))

  estimator = programs.estimator(tmp_path)
  with pytest.raises(
    errors.SettingError,
    match="A hook asks for .*model.ckpt-0 while the training goes on.*use another Estimator",
  ):
    estimator.train(programs.train_input, steps=2, hooks=[hook])


def test_a_listener_may_evaluate_what_was_saved(tmp_path):
  estimator = programs.estimator(tmp_path / "one", save_checkpoints_steps=2)
  seen = []

  class Listener(tf.compat.v1.train.CheckpointSaverListener):
    def after_save(self, session, step):
      seen.append(estimator.evaluate(programs.examples(8))["global_step"])

  estimator.train(programs.train_input, steps=4, saving_listeners=[Listener()])
  assert seen == [0, 2, 4]
  plain = programs.estimator(tmp_path / "two", save_checkpoints_steps=2).train(
    programs.train_input, steps=4
  )
  np.testing.assert_array_equal(estimator.variables["w"].numpy(), plain.variables["w"].numpy())


def test_what_a_function_changes_in_its_params_no_other_sees(tmp_path):
  given = {"widths": [3]}
  seen = []

  def model_fn(features, labels, mode, params):
    seen.append(list(params["widths"]))
    params["widths"].append(4)
    return programs.line(features, labels, mode, params)

  def input_fn(params):
    seen.append(list(params["widths"]))
    params["widths"].append(5)
    return programs.train_input(params)

  estimator = programs.estimator(tmp_path, model_fn, params=given)
  given["widths"].append(6)
  estimator.train(input_fn, steps=1)
  estimator.evaluate(input_fn, steps=1)
  assert len(seen) == 4
  assert all(widths == [3] for widths in seen)


def test_params_that_cannot_be_copied_are_said(tmp_path):
  with pytest.raises(errors.SettingError, match="cannot copy a value of params"):
    programs.estimator(tmp_path, params={"lock": threading.Lock()})


def test_run_stays_in_its_folder_for_any_working_directory(tmp_path, monkeypatch):
  (tmp_path / "elsewhere").mkdir()
  monkeypatch.chdir(tmp_path)
  estimator = programs.estimator("out/../run", save_checkpoints_steps=2)
  estimator.train(programs.train_input, steps=2)
  monkeypatch.chdir(tmp_path / "elsewhere")
  estimator.train(programs.train_input, steps=2)
  assert estimator.evaluate(programs.examples(8))["global_step"] == 4
  assert estimator.model_dir == str(tmp_path / "run")
  assert sorted(path.name for path in tmp_path.iterdir()) == ["elsewhere", "run"]
  assert not list((tmp_path / "elsewhere").iterdir())
  # The checkpoint of the run itself, under another name: its evaluation is written down.
  monkeypatch.chdir(tmp_path)
  estimator.evaluate(programs.examples(8), checkpoint_path="run/model.ckpt-2")
  assert set(evaluations_file.read(estimator.model_dir, "")) == {2, 4}
