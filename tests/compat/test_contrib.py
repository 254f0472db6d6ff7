"""tf.contrib: what is no layer."""

import numpy as np
import pytest

import trainer.compat.v1 as tf
from tests.compat import programs
from trainer.compat.scan import verdicts
from trainer.compat.v1 import contrib
from trainer.compat.v1.contrib import tpu as contrib_tpu


def test_hparams_keep_their_types():
  hparams = contrib.training.HParams(rate=0.1, layers=[1, 2], name="a", deep=True, width=3)
  hparams.parse("rate=1,layers=[3,4,5],name=b,deep=false,width=7")
  assert hparams.values() == dict(rate=1.0, layers=[3, 4, 5], name="b", deep=False, width=7)
  assert hparams.parse("layers[1]=9").layers == [3, 9, 5]
  hparams.add_hparam("more", 2)
  assert ("more" in hparams, hparams.get("other", 5)) == (True, 5)
  assert contrib.training.HParams(a=1).to_json() == '{"a": 1}'
  with pytest.raises(ValueError, match="Could not cast"):
    hparams.set_hparam("width", 1.5)
  with pytest.raises(ValueError, match="Unknown hyperparameter"):
    hparams.parse("nothing=1")
  with pytest.raises(ValueError, match="reserved"):
    hparams.add_hparam("more", 2)


def test_hparams_are_params(tmp_path):
  seen = []

  def model_fn(features, labels, mode, params):
    seen.append((params.width, params.batch_size, params.use_tpu))
    return programs.tpu_model_fn(features, labels, mode, params)

  def input_fn(params):
    assert params.context.num_replicas == 2
    return programs.train_input_fn({"batch_size": params.batch_size})

  params = contrib.training.HParams(width=3)
  estimator = programs.tpu_estimator(tmp_path, "cpu:2", model_fn, params, use_tpu=True)
  estimator.train(input_fn, steps=1)
  assert set(seen) == {(3, 8, True)}
  assert params.values() == {"width": 3}


def test_arg_scopes_nest_and_are_taken_again():
  @contrib.framework.add_arg_scope
  def layer(x, a=1, b=2):
    return x, a, b

  with contrib.framework.arg_scope([layer], a=3) as scope:
    assert layer(0) == (0, 3, 2)
    with contrib.framework.arg_scope([layer], b=4):
      assert layer(0, a=5) == (0, 5, 4)
  with contrib.framework.arg_scope(scope):
    assert layer(0) == (0, 3, 2)
  assert layer(0) == (0, 1, 2)
  with pytest.raises(ValueError, match="not decorated"):
    contrib.framework.arg_scope([len], a=1).__enter__()


def test_correlations_are_those_of_numpy(tmp_path):
  def model_fn(features, labels, mode, params):
    spec = programs.tpu_model_fn(features, labels, mode, params)
    if mode != "eval":
      return spec

    def metric_fn(a, b):
      return {"pearson": contrib.metrics.streaming_pearson_correlation(a, b)}

    return spec._replace(eval_metrics=(metric_fn, [features["x"][:, 0], features["x"][:, 1]]))

  estimator = programs.tpu_estimator(tmp_path, fn=model_fn)
  estimator.train(programs.train_input_fn, steps=1)
  result = estimator.evaluate(programs.eval_input_fn)
  a, b = programs.arrays()[0][:, :2].T
  assert result["pearson"] == pytest.approx(np.corrcoef(a, b)[0, 1], rel=1e-5)


def test_streaming_metrics_take_predictions_before_labels():
  with tf.Graph().as_default(), tf.Session() as session:
    predictions, labels = tf.constant([1, 1, 0, 1]), tf.constant([1, 0, 0, 0])
    logits, classes = tf.constant([[0.1, 0.9], [0.2, 0.8]]), tf.constant([[0], [1]], tf.int64)
    pairs = {
      "precision": contrib.metrics.streaming_precision(predictions, labels),
      "recall": contrib.metrics.streaming_recall(predictions=predictions, labels=labels),
      "false_negatives": contrib.metrics.streaming_false_negatives(predictions, labels),
      "below": contrib.metrics.streaming_percentage_less(logits, 0.5),
      "at_k": contrib.metrics.streaming_sparse_precision_at_k(logits, classes, 1),
      "recall_at_k": contrib.metrics.streaming_recall_at_k(logits, classes[:, 0], 1, [1.0, 3.0]),
    }
    session.run(tf.local_variables_initializer())
    found = session.run({name: update for name, (_, update) in pairs.items()})
  wanted = {"precision": 1 / 3, "recall": 1, "false_negatives": 0, "below": 0.5, "at_k": 0.5}
  wanted["recall_at_k"] = 0.75
  assert found == pytest.approx(wanted)


def test_a_dataset_has_its_own_threads():
  from trainer.compat.v1.contrib.data.python.ops import threadpool

  pool = threadpool.PrivateThreadPool(3, display_name="input_pipeline_thread_pool")
  data = threadpool.override_threadpool(tf.data.Dataset.range(2), pool)
  assert data.options().threading.private_threadpool_size == 3
  assert list(data.as_numpy_iterator()) == [0, 1]


def test_collections_of_a_variable_and_keys_of_functions():
  utils = contrib.layers.utils
  assert utils.get_variable_collections({"beta": ["a"]}, "beta") == ["a"]
  assert utils.get_variable_collections({"beta": ["a"]}, "gamma") is None
  assert utils.get_variable_collections(["all"], "gamma") == ["all"]
  slim = contrib.slim
  with slim.arg_scope([slim.dropout], keep_prob=0.9) as scope:
    assert scope[slim.arg_scope_func_key(slim.dropout)] == {"keep_prob": 0.9}


def test_a_host_call_writes_summaries(tmp_path):
  def model_fn(features, labels, mode, params):
    spec = programs.tpu_model_fn(features, labels, mode, params)
    writer = contrib.summary.create_file_writer(str(tmp_path))  # as some do, for nothing
    with tf.control_dependencies([writer.init()]):
      step = tf.reshape(tf.train.get_global_step(), [1])

    def host_call(step, loss):
      with contrib.summary.create_file_writer(str(tmp_path / "host"), max_queue=10).as_default():
        with contrib.summary.always_record_summaries():
          contrib.summary.scalar("loss", loss[0], step=step[0])
        return contrib.summary.all_summary_ops()

    return spec._replace(host_call=(host_call, [step, tf.reshape(spec.loss, [1])]))

  estimator = programs.tpu_estimator(tmp_path / "model", fn=model_fn)
  estimator.train(programs.train_input_fn, steps=3)
  (path,) = (tmp_path / "host").glob("events*")
  steps = [event.step for event in tf.train.summary_iterator(str(path)) if event.summary.value]
  assert steps == [0, 1, 2]


def test_the_scalar_of_a_longer_tensor_is_its_first_element(tmp_path):
  with contrib.summary.create_file_writer(str(tmp_path)).as_default():
    contrib.summary.scalar("vector", tf.constant([3.0, 4.0]), step=0)
    contrib.summary.scalar("matrix", tf.constant([[5.0], [6.0]]), step=0)
    contrib.summary.scalar("whole", tf.constant(7), step=0)
  (path,) = tmp_path.glob("events*")
  found = {
    value.tag: float(tf.make_ndarray(value.tensor))
    for event in tf.train.summary_iterator(str(path))
    for value in event.summary.value
  }
  assert found == {"vector": 3.0, "matrix": 5.0, "whole": 7.0}  # 2.15.1 wrote these


def test_examples_are_decoded_into_items():
  slim = contrib.slim
  image = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3)

  def example(kind, encoded):
    floats = {f"box/{side}": [0.1 * i, 0.5] for i, side in enumerate(("ymin", "xmin"))}
    floats |= {"box/ymax": [1.0, 1.0], "box/xmax": [0.9, 0.8], "values": [1.0, 2.0, 3.0, 4.0]}
    features = {
      "image/encoded": tf.train.Feature(bytes_list=tf.train.BytesList(value=[encoded])),
      "image/format": tf.train.Feature(bytes_list=tf.train.BytesList(value=[kind])),
      "rows": tf.train.Feature(int64_list=tf.train.Int64List(value=[2])),
    }
    for name, value in floats.items():
      features[name] = tf.train.Feature(float_list=tf.train.FloatList(value=value))
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()

  keys = {
    "image/encoded": tf.FixedLenFeature((), tf.string, ""),
    "image/format": tf.FixedLenFeature((), tf.string, "png"),
    "rows": tf.FixedLenFeature([1], tf.int64),
    "nothing": tf.VarLenFeature(tf.int64),
    "values": tf.VarLenFeature(tf.float32),
  } | {f"box/{side}": tf.VarLenFeature(tf.float32) for side in ("ymin", "xmin", "ymax", "xmax")}
  handlers = slim.tfexample_decoder
  values = handlers.Tensor("values", shape=[2, 2])
  items = {
    "image": handlers.Image(shape=[2, 3, 3]),
    "boxes": handlers.BoundingBox(["ymin", "xmin", "ymax", "xmax"], "box/"),
    "values": values,
    "backup": handlers.BackupHandler(handlers.Tensor("nothing"), handlers.Tensor("rows")),
    "sum": handlers.ItemHandlerCallback(
      ["values"], lambda given: tf.sparse.reduce_sum(given["values"])
    ),
  }
  decoder = handlers.TFExampleDecoder(keys, items)

  def decoded(serialized, names=None):
    rows = tf.data.Dataset.from_tensors(serialized)
    return next(iter(rows.map(lambda one: tuple(decoder.decode(one, names)))))

  assert decoder.list_items() == ["image", "boxes", "values", "backup", "sum"]
  encoded = {b"png": tf.image.encode_png(image).numpy(), b"raw": image.tobytes()}
  for kind, content in encoded.items():
    found = decoded(example(kind, content), ["boxes", "image", "sum"])
    np.testing.assert_array_equal(found[1], image)
  np.testing.assert_allclose(found[0], [[0, 0.1, 1, 0.9], [0.5, 0.5, 1, 0.8]], rtol=1e-6)
  assert found[2] == 10
  jpeg = tf.image.encode_jpeg(image).numpy()
  found = decoded(example(b"jpeg", jpeg))
  np.testing.assert_array_equal(found[0], tf.image.decode_jpeg(jpeg))
  assert (found[2].numpy().tolist(), found[3].numpy().tolist()) == ([[1, 2], [3, 4]], [2])
  with pytest.raises(ValueError, match="both shape_keys and shape"):
    handlers.Tensor("values", ["rows"], [2])


@pytest.mark.parametrize("by_estimator_spec", [True, False])
def test_metrics_of_a_host_call_count_until_they_are_reset(tmp_path, by_estimator_spec):
  def model_fn(features, labels, mode, params):
    spec = programs.tpu_model_fn(features, labels, mode, params)
    step = tf.reshape(tf.train.get_global_step(), [1])

    def host_call(step, loss):
      with tf.variable_scope("metrics"):
        mean = tf.metrics.mean(loss)
      with contrib.summary.create_file_writer(str(tmp_path / "host")).as_default():
        contrib.summary.scalar("loss", loss[0], step=step[0])
        contrib.summary.scalar("mean", mean[1], step=step[0])
      counters = tf.local_variables("metrics")
      assert len(counters) == 2
      tf.cond(step[0] == 2, lambda: tf.variables_initializer(counters), tf.no_op)
      return contrib.summary.all_summary_ops()

    spec = spec._replace(host_call=(host_call, [step, tf.reshape(spec.loss, [1])]))
    return spec.as_estimator_spec()._replace(predictions=None) if by_estimator_spec else spec

  programs.tpu_estimator(tmp_path / "model", fn=model_fn).train(programs.train_input_fn, steps=5)
  (path,) = (tmp_path / "host").glob("events*")
  values = {"loss": [], "mean": []}
  for event in tf.train.summary_iterator(str(path)):
    for value in event.summary.value:
      values[value.tag].append(float(tf.make_ndarray(value.tensor)))
  loss = np.array(values["loss"])
  expected = [loss[:1].mean(), loss[:2].mean(), loss[:3].mean(), loss[3], loss[3:].mean()]
  np.testing.assert_allclose(values["mean"], expected, rtol=1e-5)


@pytest.mark.parametrize(
  "make,names",
  [
    (lambda: contrib.opt.LazyAdamOptimizer(0.01), {"Adam", "Adam_1"}),
    (
      lambda: contrib.estimator.clip_gradients_by_norm(tf.train.MomentumOptimizer(0.1, 0.9), 1e-3),
      {"Momentum"},
    ),
  ],
)
def test_optimizers_train_alike_on_one_core_and_two(tmp_path, make, names):
  def model_fn(features, labels, mode, params):
    spec = programs.tpu_model_fn(features, labels, "eval", params)
    train_op = make().minimize(spec.loss, tf.train.get_global_step())
    return contrib_tpu.TPUEstimatorSpec(mode, loss=spec.loss, train_op=train_op)

  values = []
  for device in ("cpu", "cpu:2"):
    estimator = programs.tpu_estimator(tmp_path / device, device, fn=model_fn)
    estimator.train(programs.train_input_fn, steps=3)
    values.append(estimator.get_variable_value("net/dense/kernel"))
  assert names <= {name.rpartition("/")[2] for name in estimator.get_variable_names()}
  np.testing.assert_allclose(*values, rtol=1e-4, atol=1e-6)


def test_framework_has_the_names_that_became_those_of_tf_train():
  framework, slim = contrib.framework, contrib.slim
  for name in ("get_or_create_global_step", "create_global_step", "init_from_checkpoint"):
    assert getattr(framework, name) is getattr(tf.train, name), name
  assert slim.get_or_create_global_step is tf.train.get_or_create_global_step


def test_embeddings_are_shown_in_the_folder_of_a_writer(tmp_path):
  from trainer.compat.v1.contrib.tensorboard.plugins import projector

  config = projector.ProjectorConfig()
  config.embeddings.add().tensor_name = "words"
  writer = tf.summary.FileWriter(str(tmp_path / "of_writer"))
  (tmp_path / "folder").mkdir()
  for place in (writer, str(tmp_path / "folder")):
    projector.visualize_embeddings(place, config)
  for folder in ("of_writer", "folder"):
    assert "words" in (tmp_path / folder / "projector_config.pbtxt").read_text()


def test_writers_of_tensorflow_1_write_outside_of_a_graph(tmp_path):
  summary = tf.Summary(value=[tf.Summary.Value(tag="rate", simple_value=0.5)])
  for folder, make in (("made", tf.summary.FileWriter), ("kept", tf.summary.FileWriterCache.get)):
    writer = make(str(tmp_path / folder))
    writer.add_summary(summary, 3)
    writer.close()
    (path,) = (tmp_path / folder).iterdir()
    values = [
      (event.step, v.tag)
      for event in tf.train.summary_iterator(str(path))
      for v in event.summary.value
    ]
    assert values == [(3, "rate")]
  assert tf.summary.FileWriterCache.get(str(tmp_path / "kept")) is writer


def test_a_session_that_is_given_to_keras_changes_nothing():
  tf.keras.backend.set_session(tf.Session(config=tf.ConfigProto(allow_soft_placement=True)))
  assert "Keras 3 has no session" in verdicts.of("keras.backend.get_session").advice


@pytest.mark.parametrize("is_normalized", [True, False])
def test_layer_norm_basic_lstm_cell(is_normalized):
  random = np.random.RandomState(0)
  x, c, h = random.randn(2, 3), random.randn(2, 4), random.randn(2, 4)
  kernel = random.randn(7, 16).astype(np.float32)

  def normalized(values):
    if not is_normalized:
      return values
    centered = values - values.mean(1, keepdims=True)
    return 0.5 * centered / np.sqrt(centered.var(1, keepdims=True)) + 0.1

  def sigmoid(values):
    return 1 / (1 + np.exp(-values))

  i, j, f, o = map(normalized, np.split(np.concatenate([x, h], 1) @ kernel, 4, 1))
  new_c = normalized(c * sigmoid(f + 0.3) + sigmoid(i) * np.tanh(j))
  with tf.Graph().as_default(), tf.Session() as session:
    cell = contrib.rnn.LayerNormBasicLSTMCell(
      4, 0.3, layer_norm=is_normalized, norm_gain=0.5, norm_shift=0.1
    )
    state = cell.zero_state(2, tf.float32)
    inputs = tf.constant(x, tf.float32)
    output, state = cell(
      inputs, type(state)(tf.constant(c, tf.float32), tf.constant(h, tf.float32))
    )
    session.run(tf.global_variables_initializer())
    names = {variable.op.name: variable for variable in tf.global_variables()}
    session.run(names["layer_norm_basic_lstm_cell/kernel"].assign(kernel))
    if not is_normalized:  # its first values are random, as the kernel's
      session.run(names["layer_norm_basic_lstm_cell/bias"].assign(np.zeros(16)))
    found = session.run([output, state.c, state.h])
  scopes = ("input", "transform", "forget", "output", "state") if is_normalized else ()
  inner = {f"{scope}/{name}" for scope in scopes for name in ("gamma", "beta")} or {"bias"}
  assert set(names) == {f"layer_norm_basic_lstm_cell/{one}" for one in inner | {"kernel"}}
  new_h = np.tanh(new_c) * sigmoid(o)
  for one, other in zip(found, [new_h, new_c, new_h], strict=True):
    np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_model_analyzer_counts_entries_and_bytes(capsys):
  from trainer.compat.v1.contrib.slim import model_analyzer

  with tf.Graph().as_default() as graph:
    w = tf.get_variable("w", [3, 4])
    step = tf.get_variable("step", [], tf.int64, trainable=False)
    assert model_analyzer.analyze_vars([w, step], print_info=True) == (13, 56)
    said = capsys.readouterr().out.splitlines()
    before = model_analyzer.analyze_ops(graph)
    tf.zeros([2, 5], name="ten")
    assert model_analyzer.analyze_ops(graph, print_info=True) == before + 10
  assert said[1] == "Variables: name (type shape) [size]"
  assert said[3] == "w:0 (float32 3x4) [12, bytes: 48]"
  assert said[4:] == [
    "step:0 (int64 ) [1, bytes: 8]",
    "Total size of variables: 13",
    "Total bytes of variables: 56",
  ]
  assert "ten \t-> (float32 2x5) [10]\n" in capsys.readouterr().out


def test_functions_of_layers_have_their_own_defaults():
  dense, flatten = map(contrib.framework.add_arg_scope, (tf.layers.dense, tf.layers.flatten))
  with tf.Graph().as_default(), contrib.framework.arg_scope([dense], units=3, name="a"):
    outputs = dense(flatten(tf.zeros([2, 2, 2])))
    assert [variable.op.name for variable in tf.global_variables()] == ["a/kernel", "a/bias"]
  assert outputs.shape == [2, 3]


def test_an_input_spec_keeps_its_axes():
  spec = tf.layers.InputSpec(min_ndim=2, axes={-1: 3})
  assert (spec.min_ndim, spec.axes, spec.shape) == (2, {-1: 3}, None)


def test_a_deprecated_function_logs_at_its_first_call(caplog):
  @contrib.framework.deprecated("2020-01-01", "Use other.")
  def older(x):
    return x + 1

  with caplog.at_level("WARNING", "tensorflow"):
    assert (older(1), older(2)) == (2, 3)
  (record,) = [one for one in caplog.records if "older" in one.getMessage()]
  told, _, instead = record.getMessage().partition("\n")
  assert told.endswith("will be removed after 2020-01-01.")
  assert instead.endswith("Use other.")


def test_data_files_of_names_and_patterns(tmp_path):
  for name in ("a-0", "a-1", "b"):
    (tmp_path / name).touch()
  find = contrib.slim.parallel_reader.get_data_files
  found = find([f"{tmp_path}/a-*", f"{tmp_path}/c"])
  assert sorted(found) == [f"{tmp_path}/{name}" for name in ("a-0", "a-1", "c")]
  with pytest.raises(ValueError, match=r"No data files found in .*d\*"):
    find(f"{tmp_path}/d*")


def test_the_open_name_scope():
  with tf.Graph().as_default(), tf.name_scope("a"), tf.name_scope("b"):
    assert contrib.framework.get_name_scope() == "a/b"


def test_files_are_streamed_in_turn(tmp_path):
  for name in ("a", "b"):
    (tmp_path / name).write_text(f"{name}0\n{name}1\n")
  names = tf.data.Dataset.from_tensor_slices([f"{tmp_path}/a", f"{tmp_path}/b"])
  stream = contrib.tpu.StreamingFilesDataset
  found = stream(names, "text", num_epochs=2, filename_shuffle_buffer_size=0, sloppy=False)
  assert list(found.as_numpy_iterator()) == [b"a0", b"b0", b"a1", b"b1"] * 2
  endless = stream(f"{tmp_path}/*", tf.data.TextLineDataset, num_parallel_reads=1)
  assert len(set(endless.take(8).as_numpy_iterator())) == 4
  with pytest.raises(ValueError, match="filetype='csv'"):
    stream(names, "csv")
