"""tf.summary inside a model_fn ends in event files with the steps that it is of."""

import collections
import os
import pathlib
import time

import pytest
import tensorflow as tf
from tensorboard.backend.event_processing import plugin_event_accumulator

import trainer
from tests import long
from tests.trainer import programs
from trainer import errors
from trainer.cli import notices
from trainer.internals import patches
from trainer.reporting import summaries

v1 = tf.compat.v1


def scalars(directory):
  """dict of tag → [(step, value)] in the event files of a directory, not of those below it."""
  found = {}
  for path in sorted(pathlib.Path(directory).glob("events.*")):
    for event in v1.train.summary_iterator(str(path)):
      for value in event.summary.value:
        if value.metadata.plugin_data.plugin_name == "scalars":
          found.setdefault(value.tag, []).append((event.step, float(tf.make_ndarray(value.tensor))))
  return found


def telling(tell):
  """The line, which tells something in each training step."""

  def model_fn(features, labels, mode, params):
    tell(tf.cast(v1.train.get_global_step(), tf.float32))
    return programs.line(features, labels, mode, params)

  return model_fn


def _scoped(value):
  with tf.name_scope("inner"):
    tf.summary.scalar("rate", value)


TELLING = {
  "tf.summary": (lambda value: tf.summary.scalar("rate", value), "rate"),
  "v1": (lambda value: v1.summary.scalar("rate", value), "rate"),
  "v1 of a family": (
    lambda value: v1.summary.scalar("rate", value, family="optimizer"),
    "optimizer/rate",
  ),
  "a slash": (lambda value: tf.summary.scalar("optimizer/rate", value), "optimizer/rate"),
  "a space": (lambda value: tf.summary.scalar("learning rate", value), "learning rate"),
  "a scope": (_scoped, "inner/rate"),
  "a rank": (lambda value: tf.summary.scalar("rate", tf.reshape(value, [])), "rate"),
}


@pytest.mark.parametrize("tell, tag", TELLING.values(), ids=TELLING)
def test_scalars_are_written_with_their_steps(tell, tag, tmp_path):
  """The scalar is the number of the step that is being done, from 0; the step in the file is
  that of the state after it.
  """
  estimator = programs.estimator(
    tmp_path, telling(tell), save_summary_steps=3, **programs.fixed_loops(3)
  )
  estimator.train(programs.train_input, steps=8)
  assert scalars(tmp_path)[tag] == [(3, 2.0), (6, 5.0), (8, 7.0)]


def test_the_value_is_the_mean_over_the_replicas(tmp_path):
  def tell(value):
    tf.summary.scalar("replica", tf.distribute.get_replica_context().replica_id_in_sync_group)

  programs.estimator(tmp_path, telling(tell), device="cpu:2").train(programs.train_input, steps=1)
  assert scalars(tmp_path)["replica"] == [(1, 0.5)]


def test_the_loss_is_the_mean_since_the_last_report(tmp_path):
  seen = []
  programs.estimator(tmp_path, save_summary_steps=4, **programs.fixed_loops(1)).train(
    programs.train_input, steps=6, hooks=[lambda step, metrics, _: seen.append(metrics["loss"])]
  )
  found = scalars(tmp_path)
  assert found["loss"] == [
    (4, pytest.approx(sum(seen[:4]) / 4)),
    (6, pytest.approx(sum(seen[4:]) / 2)),
  ]
  assert set(found) >= {"steps_per_second", "examples_per_second", "input_wait", "learning_rate"}


def test_what_an_evaluation_finds_is_in_a_folder_of_its_name(tmp_path):
  estimator = programs.estimator(tmp_path).train(programs.train_input, steps=2)
  plain = estimator.evaluate(programs.examples(8))
  named = estimator.evaluate(programs.examples(5), name="small")
  for folder, result in (("eval", plain), ("eval_small", named)):
    found = scalars(tmp_path / folder)
    assert found == {
      name: [(2, pytest.approx(result[name]))] for name in ("loss", "absolute_error")
    }


def test_steps_before_the_end_of_the_input_are_reported(tmp_path):
  programs.estimator(tmp_path, **programs.fixed_loops(2)).train(programs.batches(4), steps=10)
  assert [step for step, _ in scalars(tmp_path)["loss"]] == [4]


def test_summaries_outside_of_a_training_step_do_not_matter(tmp_path):
  estimator = programs.estimator(tmp_path, telling(lambda value: tf.summary.scalar("rate", value)))
  estimator.train(programs.train_input, steps=1)
  estimator.evaluate(programs.examples(8))
  list(estimator.predict(programs.examples(8)))
  estimator.export_saved_model(tmp_path / "export")
  assert "rate" not in scalars(tmp_path / "eval")


def test_what_is_not_written_is_said_once(tmp_path, caplog, monkeypatch):
  def tell(value):
    tf.summary.image("image", tf.ones([1, 2, 2, 1]))
    tf.summary.histogram("histogram", tf.ones([4]))
    tf.summary.text("text", "a text")
    v1.summary.image("v1 image", tf.ones([1, 2, 2, 1]))
    v1.summary.histogram("v1 histogram", tf.ones([4]))

  monkeypatch.setattr(notices, "_given", set())
  estimator = programs.estimator(tmp_path, telling(tell), device="cpu:2").train(
    programs.train_input, steps=1
  )
  estimator.evaluate(programs.examples(8))
  for name in ("image", "histogram", "text", "v1 image", "v1 histogram"):
    assert caplog.text.count(f"Octet does not write the summary '{name}'") == 1, name


@long.ON_TWO_CORES
def test_a_host_call_writes_images_with_their_steps(tmp_path, device):
  """As docs/follow_a_run.md has it."""

  def write(step, images):
    with tf.summary.create_file_writer(str(tmp_path / "images")).as_default():
      tf.summary.image("images", images, step=step[0], max_outputs=100)
      tf.summary.flush()

  def model_fn(features, labels, mode, params):
    spec = programs.line(features, labels, mode, params)
    if mode == programs.ModeKeys.TRAIN:
      step = tf.reshape(v1.train.get_global_step() + 1, [1])
      spec.host_call = (write, {"step": step, "images": tf.reshape(features["x"], [-1, 1, 3, 1])})
    return spec

  loops = dict(tpu_config=trainer.TPUConfig(iterations_per_loop=3, host_call_every_n_steps=2))
  programs.estimator(tmp_path, model_fn, device=device, batch_size=16, **loops).train(
    programs.train_input, steps=5
  )
  found = [
    (event.step, len(tf.make_ndarray(value.tensor)) - 2)
    for path in sorted((tmp_path / "images").iterdir())
    for event in v1.train.summary_iterator(str(path))
    for value in event.summary.value
  ]
  assert found == [(2, 16), (4, 16)]


def test_collecting_is_over_when_it_is_left():
  with summaries.collect_scalars() as outer:
    with summaries.collect_scalars() as inner:
      summaries.record("a", tf.constant(1))
    summaries.record("b", tf.constant([2.5]))
  summaries.record("c", tf.constant(3))
  assert {tag: float(value) for tag, value in inner.items()} == {"a": 1.0}
  assert {tag: float(value) for tag, value in outer.items()} == {"b": 2.5}


def test_program_may_write_scalars_after_an_interception(tmp_path):
  patches.install()
  writer = tf.summary.create_file_writer(str(tmp_path))
  with writer.as_default():
    with summaries.collect_scalars() as collected, summaries.intercept_scalars():
      tf.summary.scalar("left behind", 1.0, step=3)
      v1.summary.scalar("left behind too", 2.0)
    tf.summary.scalar("mine", 1.5, step=3)
  writer.close()
  assert list(collected) == ["left behind", "left behind too"]
  assert scalars(tmp_path) == {"mine": [(3, 1.5)]}


def test_writer_makes_its_folder_at_the_first_write(tmp_path):
  writer = summaries.Writer(str(tmp_path / "events"))
  assert not (tmp_path / "events").exists()
  writer.scalars(3, {"a": 1.0, "b": 2.0})
  writer.text(4, "note", "one\ntwo")
  assert scalars(tmp_path / "events") == {"a": [(3, 1.0)], "b": [(3, 2.0)]}


def test_a_file_in_the_way(tmp_path):
  (tmp_path / "events").write_text("a file")
  with pytest.raises(
    errors.OutputError,
    match=r"Cannot write TensorBoard files to .*events "
    r"\(--model_dir\)",
  ):
    summaries.Writer(str(tmp_path / "events")).scalars(1, {"a": 1.0})


def test_a_process_writes_one_file_to_a_folder(tmp_path):
  for step in range(3):
    summaries.Writer(str(tmp_path / "eval")).scalars(step, {"a": step})
  (path,) = (tmp_path / "eval").iterdir()
  path.unlink()  # a folder that is cleared while the process goes on gets a new one
  summaries.Writer(str(tmp_path / "eval")).scalars(7, {"a": 7.0})
  assert scalars(tmp_path / "eval") == {"a": [(7, 7.0)]}


def shown(folder):
  """The steps that TensorBoard shows."""
  accumulator = plugin_event_accumulator.EventAccumulator(str(folder))
  accumulator.Reload()
  return [event.step for event in accumulator.Tensors("loss")]


@pytest.mark.parametrize("folder", [".", "eval"])
@pytest.mark.parametrize("in_another_process", [False, True])
def test_steps_that_are_done_again_are_shown_once(
  tmp_path, monkeypatch, folder, in_another_process
):
  for start, steps in ((0, (10, 20, 30)), (20, (30, 40))):
    summaries.begin(str(tmp_path), start)
    for step in steps:
      summaries.Writer(os.path.normpath(tmp_path / folder)).scalars(step, {"loss": 0.5})
    if in_another_process:
      monkeypatch.setattr(summaries, "_open", collections.OrderedDict())
  assert shown(tmp_path / folder) == [10, 20, 30, 40]


def test_files_begun_in_sequence_are_read_in_that_order(tmp_path, monkeypatch):
  for step in range(1, 4):
    monkeypatch.setattr(summaries, "_open", collections.OrderedDict())
    summaries.Writer(str(tmp_path)).scalars(step, {"loss": 0.5})
  seconds = [int(path.name.split(".")[3]) for path in tmp_path.iterdir()]
  assert len(set(seconds)) == 3


@pytest.mark.parametrize("days, is_said", [(30, True), (0, False)])
def test_a_clock_that_was_set_back_is_said(days, is_said, tmp_path, caplog):
  second = int(time.time()) + days * 86400 - 1
  (tmp_path / f"events.out.tfevents.{second}.here.1.0.v2").touch()
  summaries.Writer(str(tmp_path)).open()
  assert ("in a wrong order" in caplog.text) == is_said


def test_few_files_are_open_at_a_time(tmp_path, monkeypatch):
  monkeypatch.setattr(summaries, "_open", collections.OrderedDict())
  monkeypatch.setattr(summaries, "_MOST_OPEN", 2)
  for name in "abca":
    summaries.Writer(str(tmp_path / name)).scalars(1, {"loss": 0.5})
  assert [path.rpartition("/")[2] for path in summaries._open] == ["c", "a"]
  assert shown(tmp_path / "b") == [1]


def test_a_disk_that_is_full_later_is_one_sentence(tmp_path, monkeypatch):
  writer = summaries.Writer(str(tmp_path))
  writer.scalars(1, {"loss": 1.0})

  def refuse():
    message = "/disk/events.out; No space left on device\n\tFailed to flush [Op:FlushSummaryWriter]"
    raise tf.errors.ResourceExhaustedError(None, None, message)

  monkeypatch.setattr(writer.open(), "flush", refuse)
  message = r"TensorBoard files to .* \(--model_dir\): No space left on device\.$"
  with pytest.raises(errors.OutputError, match=message):
    writer.scalars(2, {"loss": 2.0})
