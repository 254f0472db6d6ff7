"""The sixty names that left TensorFlow and that published Estimator programs use most: each has a
test, with the behaviour of 2.15.

Defaults and numbers were read from TensorFlow 2.15.1 (record_2_15.py says how to install it).
"""

import ast
import collections
import csv
import functools
import json
import pathlib

import numpy as np
import pytest

import trainer.compat.v1 as tf
from trainer.compat.names import absent, absent_names, modules
from trainer.compat.v1 import contrib
from trainer.compat.v1 import estimator as tf_estimator

HERE = pathlib.Path(__file__).parent
RECORDED = json.loads((HERE / "values_2_15.json").read_text())

# By name: the case of cases_2_15.py or canned_2_15.py, or the function of tests/compat.
TESTS = {
  "estimator.ModeKeys": "test_modes",
  "layers.dense": "dense",
  "contrib.tpu.TPUEstimatorSpec": "test_specs_have_the_fields_of_2_15",
  "contrib.tpu.TPUEstimator": "test_evaluates_and_predicts_every_example",
  "contrib.tpu.TPUConfig": "test_a_tpu_config_has_the_defaults_of_2_15",
  "contrib.tpu.RunConfig": "test_a_run_config_of_a_tpu_has_the_defaults_of_2_15",
  "contrib.cluster_resolver.TPUClusterResolver": "test_a_resolver_needs_no_tpu",
  "contrib.tpu.InputPipelineConfig.PER_HOST_V2": (
    "test_an_input_fn_gets_the_batch_size_of_its_configuration"
  ),
  "contrib.tpu.CrossShardOptimizer": "test_one_core_and_two_train_alike",
  "estimator.tpu.RunConfig": "test_contrib_tpu_is_estimator_tpu",
  "estimator.tpu.TPUEstimator": "test_contrib_tpu_is_estimator_tpu",
  "estimator.tpu.TPUConfig": "test_contrib_tpu_is_estimator_tpu",
  "estimator.tpu.TPUEstimatorSpec": "test_contrib_tpu_is_estimator_tpu",
  "estimator.EstimatorSpec": "test_specs_have_the_fields_of_2_15",
  "estimator.export.ServingInputReceiver": "test_a_receiver_names_single_tensors",
  "estimator.Estimator": "test_batch_sizes_are_those_of_the_input_fns",
  "summary.create_file_writer": "test_writers_of_a_model_fn_write_nothing",
  "contrib.summary.scalar": "test_a_host_call_writes_summaries",
  "contrib.layers.layer_norm": "contrib.layer_norm",
  "layers.dropout": "dropout",
  "estimator.RunConfig": "test_a_run_config_has_the_defaults_of_2_15",
  "estimator.export.PredictOutput": "test_a_predict_output_names_a_single_tensor",
  "contrib.training.HParams": "test_hparams_keep_their_types",
  "contrib.data.map_and_batch": "test_map_and_batch",
  "layers.conv2d": "conv2d",
  "layers.batch_normalization": "batch_normalization in training",
  "contrib.summary.create_file_writer": "test_a_host_call_writes_summaries",
  "contrib.summary.always_record_summaries": "test_summaries_are_recorded_where_asked_for",
  "contrib.summary.all_summary_ops": "test_a_host_call_writes_summaries",
  "contrib.layers.l2_regularizer": "regularized",
  "summary.record_if": "test_summaries_are_recorded_where_asked_for",
  "layers.max_pooling2d": "max_pooling2d",
  "layers.average_pooling2d": "average_pooling2d",
  "estimator.SessionRunHook": "test_a_hook_of_an_estimator_sees_every_step",
  "estimator.SessionRunArgs": "test_hooks_of_a_model_fn_fetch_its_tensors_on_every_device",
  "contrib.slim.arg_scope": "slim.arg_scope",
  "contrib.metrics.streaming_pearson_correlation": "test_correlations_are_those_of_numpy",
  "contrib.layers.variance_scaling_initializer": "variance_scaling_initializer",
  "contrib.layers.flatten": "contrib.flatten",
  "contrib.estimator.clip_gradients_by_norm": ("test_optimizers_train_alike_on_one_core_and_two"),
  "contrib.data.parallel_interleave": "test_parallel_interleave",
  "contrib.slim.conv2d": "slim.conv2d",
  "contrib.slim.max_pool2d": "slim.max_pool2d",
  "contrib.slim.fully_connected": "slim.fully_connected",
  "contrib.slim.avg_pool2d": "slim.avg_pool2d",
  "contrib.slim.separable_conv2d": "slim.separable_conv2d",
  "contrib.slim.batch_norm": "slim.batch_norm",
  "contrib.slim.dropout": "slim.dropout",
  "contrib.slim.l2_regularizer": "slim.l2_regularizer",
  "contrib.framework.assign_from_checkpoint_fn": "test_checkpoints_are_read_by_name",
  "contrib.framework.arg_scope": "test_arg_scopes_nest_and_are_taken_again",
  "contrib.framework.load_checkpoint": "test_checkpoints_are_read_by_name",
  "contrib.framework.list_variables": "test_checkpoints_are_read_by_name",
  "contrib.tpu.bfloat16_scope": "test_bfloat16_scope_keeps_variables_in_float32",
  "contrib.training.checkpoints_iterator": "test_checkpoints_are_iterated_over",
  "estimator.LinearEstimator": "test_estimators_with_heads_have_the_names_of_classifiers",
  "estimator.DNNEstimator": "test_estimators_with_heads_have_the_names_of_classifiers",
  "estimator.LinearClassifier": "linear",
  "estimator.DNNClassifier": "dnn",
  "estimator.BoostedTreesEstimator": "test_boosted_trees_are_absent",
}


def test_every_name_has_a_test():
  functions = {
    node.name
    for path in HERE.glob("test_*.py")
    for node in ast.walk(ast.parse(path.read_text()))
    if isinstance(node, ast.FunctionDef)
  }
  canned = json.loads((HERE / "canned_2_15.json").read_text())
  assert len(TESTS) == 60
  missing = {name for name, test in TESTS.items() if test not in functions | {*RECORDED, *canned}}
  assert not missing


@pytest.mark.parametrize("name", TESTS)
def test_names_are_there_or_absent_on_purpose(name):
  found = tf
  try:
    for part in name.split("."):
      found = getattr(found, part)
  except absent.AbsentNameError as error:
    told = error.replacement
  else:
    told = None
  assert bool(told) == (name == "estimator.BoostedTreesEstimator")


def test_modes():
  keys = tf_estimator.ModeKeys
  assert (keys.TRAIN, keys.EVAL, keys.PREDICT) == ("train", "eval", "infer")


def test_specs_have_the_fields_of_2_15():
  fields = "mode predictions loss train_op {} export_outputs {} evaluation_hooks prediction_hooks"
  of_estimator = fields.format("eval_metric_ops", "training_chief_hooks training_hooks scaffold")
  of_tpu = fields.format("eval_metrics", "scaffold_fn host_call training_hooks")
  for cls, wanted in (
    (tf_estimator.EstimatorSpec, of_estimator),
    (contrib.tpu.TPUEstimatorSpec, of_tpu),
  ):
    predictions, loss = {"a": tf.constant(1)}, tf.constant(2)
    spec = cls("infer", predictions)
    assert list(vars(spec)) == wanted.split()
    assert spec.predictions is predictions
    assert spec.loss is None
    assert spec._replace(loss=loss).loss is loss
    with pytest.raises(ValueError, match="Mode not"):
      cls("nonsense")


def test_a_tpu_config_has_the_defaults_of_2_15():
  config = contrib.tpu.TPUConfig()
  kinds = contrib.tpu.InputPipelineConfig
  assert config.iterations_per_loop == 2
  assert (config.num_shards, config.num_cores_per_replica, config.tpu_job_name) == (None,) * 3
  assert config.experimental_host_call_every_n_steps == 1
  assert config.per_host_input_for_training == kinds.PER_HOST_V1
  assert [kinds.PER_SHARD_V1, kinds.PER_HOST_V1, kinds.PER_HOST_V2, kinds.BROADCAST] == [1, 2, 3, 4]


def _defaults(config):
  names = (
    "tf_random_seed save_summary_steps save_checkpoints_secs save_checkpoints_steps "
    "keep_checkpoint_max keep_checkpoint_every_n_hours log_step_count_steps is_chief "
    "num_worker_replicas task_type"
  )
  return [getattr(config, name) for name in names.split()]


DEFAULTS = [None, 100, 600, None, 5, 10000, 100, True, 1, "worker"]


def test_a_run_config_has_the_defaults_of_2_15():
  assert _defaults(tf_estimator.RunConfig()) == DEFAULTS
  changed = tf_estimator.RunConfig().replace(save_checkpoints_steps=7)
  assert (changed.save_checkpoints_steps, changed.save_checkpoints_secs) == (7, None)


def test_a_run_config_of_a_tpu_has_the_defaults_of_2_15():
  config = contrib.tpu.RunConfig()
  assert _defaults(config) == DEFAULTS
  assert isinstance(config.tpu_config, contrib.tpu.TPUConfig)


def test_contrib_tpu_is_estimator_tpu():
  for name in ("RunConfig", "TPUEstimator", "TPUConfig", "TPUEstimatorSpec"):
    assert getattr(tf_estimator.tpu, name) is getattr(contrib.tpu, name)


def test_a_resolver_needs_no_tpu():
  for resolver in (contrib.cluster_resolver, tf.distribute.cluster_resolver):
    made = resolver.TPUClusterResolver("name", zone="z", project="p")
    assert (made.master(), made.get_master(), made.get_job_name()) == ("name", "name", "tpu_worker")
    assert resolver.TPUClusterResolver("").master() == ""
    named = resolver.TPUClusterResolver("name", coordinator_name="coordinator")
    assert named.cluster_spec().as_dict() == {"coordinator": ["name"]}


def test_a_receiver_names_single_tensors():
  one, other = tf.constant([1.0]), tf.constant(["a"])
  receiver = tf_estimator.export.ServingInputReceiver(one, other)
  assert (list(receiver.features), list(receiver.receiver_tensors)) == (["feature"], ["input"])
  receiver = tf_estimator.export.ServingInputReceiver({"x": one}, {"y": other})
  assert (list(receiver.features), list(receiver.receiver_tensors)) == (["x"], ["y"])
  assert tf_estimator.export.TensorServingInputReceiver(one, other).features is one


def test_a_predict_output_names_a_single_tensor():
  assert list(tf_estimator.export.PredictOutput(tf.constant(1.0)).outputs) == ["output"]
  assert list(tf_estimator.export.PredictOutput({"a": tf.constant(1.0)}).outputs) == ["a"]


def test_map_and_batch():
  data = tf.data.Dataset.range(5)
  batches = data.apply(contrib.data.map_and_batch(lambda x: x * 2, 2, drop_remainder=True))
  assert [batch.numpy().tolist() for batch in batches] == [[0, 2], [4, 6]]


def test_parallel_interleave():
  def twice(x):
    return tf.data.Dataset.from_tensors(x).repeat(2)

  mixed = tf.data.Dataset.range(2).apply(contrib.data.parallel_interleave(twice, cycle_length=2))
  assert [int(x) for x in mixed] == [0, 1, 0, 1]


def _steps(folder):
  return [
    event.step
    for path in folder.glob("events*")
    for event in tf.train.summary_iterator(str(path))
    if event.summary.value
  ]


def test_summaries_are_recorded_where_asked_for(tmp_path):
  summary = contrib.summary
  with summary.create_file_writer(str(tmp_path)).as_default():
    with summary.always_record_summaries():
      summary.scalar("a", 1.0, step=1)
      with tf.summary.record_if(False):
        summary.scalar("a", 1.0, step=2)
    with summary.never_record_summaries():
      summary.scalar("a", 1.0, step=3)
    summary.flush()
  assert _steps(tmp_path) == [1]


def test_checkpoints_are_read_by_name(tmp_path):
  framework = contrib.framework
  path = str(tmp_path / "model")
  with tf.Graph().as_default(), tf.Session() as session:
    variable = tf.get_variable("a/b", initializer=[1.0, 2.0])
    session.run(tf.global_variables_initializer())
    saved = tf.train.Saver().save(session, path)
    assert framework.list_variables(saved) == [("a/b", [2])]
    assert framework.load_checkpoint(saved).get_tensor("a/b").tolist() == [1, 2]
    session.run(variable.assign([0.0, 0.0]))
    framework.assign_from_checkpoint_fn(saved, [variable])(session)
    assert session.run(variable).tolist() == [1, 2]
    session.run(variable.assign([0.0, 0.0]))
    session.run(*framework.assign_from_checkpoint(saved, {"a/b": variable}))
    assert session.run(variable).tolist() == [1, 2]


def test_bfloat16_scope_keeps_variables_in_float32():
  with tf.Graph().as_default(), contrib.tpu.bfloat16_scope():
    found = tf.get_variable("w", [2], tf.bfloat16)
    (variable,) = tf.global_variables()
  assert (found.dtype, variable.dtype.base_dtype) == (tf.bfloat16, tf.float32)


def test_checkpoints_are_iterated_over(tmp_path):
  (tmp_path / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-3"\n')
  (tmp_path / "model.ckpt-3.index").write_text("")
  found = list(contrib.training.checkpoints_iterator(str(tmp_path), timeout=0))
  assert found == [str(tmp_path / "model.ckpt-3")]


def test_a_new_checkpoint_is_waited_for(tmp_path):
  wait = contrib.slim.evaluation.wait_for_new_checkpoint
  assert wait(str(tmp_path), timeout=0) is None
  (tmp_path / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-3"\n')
  (tmp_path / "model.ckpt-3.index").write_text("")
  path = str(tmp_path / "model.ckpt-3")
  assert wait(str(tmp_path)) == path
  assert contrib.training.wait_for_new_checkpoint(str(tmp_path), path, 0.01, timeout=0.02) is None


def test_writers_of_a_model_fn_write_nothing(tmp_path):
  with tf.Graph().as_default():
    with tf.summary.create_file_writer(str(tmp_path)).as_default():
      assert not np.any(_steps(tmp_path))


def test_boosted_trees_are_absent():
  assert not hasattr(tf_estimator, "BoostedTreesEstimator")
  with pytest.raises(absent.AbsentNameError, match="decision-forests"):
    _ = tf_estimator.BoostedTreesEstimator


# The public names of tf.compat.v1.estimator in TensorFlow 2.15.
PUBLIC = (
  "BaselineClassifier",
  "BaselineEstimator",
  "BaselineRegressor",
  "BestExporter",
  "BinaryClassHead",
  "CheckpointSaverHook",
  "CheckpointSaverListener",
  "DNNClassifier",
  "DNNEstimator",
  "DNNLinearCombinedClassifier",
  "DNNLinearCombinedEstimator",
  "DNNLinearCombinedRegressor",
  "DNNRegressor",
  "Estimator",
  "EstimatorSpec",
  "EvalSpec",
  "Exporter",
  "FeedFnHook",
  "FinalExporter",
  "FinalOpsHook",
  "GlobalStepWaiterHook",
  "Head",
  "LatestExporter",
  "LinearClassifier",
  "LinearEstimator",
  "LinearRegressor",
  "LoggingTensorHook",
  "LogisticRegressionHead",
  "ModeKeys",
  "MultiClassHead",
  "MultiHead",
  "MultiLabelHead",
  "NanLossDuringTrainingError",
  "NanTensorHook",
  "PoissonRegressionHead",
  "ProfilerHook",
  "RegressionHead",
  "RunConfig",
  "SecondOrStepTimer",
  "SessionRunArgs",
  "SessionRunContext",
  "SessionRunHook",
  "SessionRunValues",
  "StepCounterHook",
  "StopAtStepHook",
  "SummarySaverHook",
  "TrainSpec",
  "VocabInfo",
  "WarmStartSettings",
  "add_metrics",
  "classifier_parse_example_spec",
  "experimental.InMemoryEvaluatorHook",
  "experimental.KMeans",
  "experimental.LinearSDCA",
  "experimental.build_raw_supervised_input_receiver_fn",
  "experimental.call_logit_fn",
  "experimental.dnn_logit_fn_builder",
  "experimental.linear_logit_fn_builder",
  "experimental.make_early_stopping_hook",
  "experimental.make_stop_at_checkpoint_step_hook",
  "experimental.stop_if_higher_hook",
  "experimental.stop_if_lower_hook",
  "experimental.stop_if_no_decrease_hook",
  "experimental.stop_if_no_increase_hook",
  "export.ClassificationOutput",
  "export.EvalOutput",
  "export.ExportOutput",
  "export.PredictOutput",
  "export.RegressionOutput",
  "export.ServingInputReceiver",
  "export.TensorServingInputReceiver",
  "export.build_parsing_serving_input_receiver_fn",
  "export.build_raw_serving_input_receiver_fn",
  "inputs.numpy_input_fn",
  "inputs.pandas_input_fn",
  "regressor_parse_example_spec",
  "tpu.InputPipelineConfig",
  "tpu.RunConfig",
  "tpu.TPUConfig",
  "tpu.TPUEstimator",
  "tpu.TPUEstimatorSpec",
  "tpu.experimental.EmbeddingConfigSpec",
  "train_and_evaluate",
)


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_of_estimator_is_there_or_explained(name):
  is_there = True
  try:
    functools.reduce(getattr, name.split("."), tf_estimator)
  except AttributeError:
    is_there = False
  assert is_there != absent_names.is_known(f"estimator.{name}")


@pytest.mark.parametrize("name", absent_names.TABLE)
def test_what_is_said_to_be_absent_is(name):
  def get():
    found = functools.reduce(getattr, name.split("."), tf)
    return found.a_name  # of a module that may be imported

  with pytest.raises(AttributeError, match="has no"):
    get()


# Public name → the number of published programs that use it.
CENSUS = {row["name"]: int(row["programs"]) for row in csv.DictReader((HERE / "census.csv").open())}

# Names of Octet's own code for tf.contrib that stay with fewer than two programs, by the reason.
KEPT = {
  "the code of a used name is made of it": """
    AttentionMechanism BasicDecoderOutput BeamSearchDecoderOutput BeamSearchDecoderState Decoder
    FinalBeamSearchDecoderOutput Helper angles_to_projective_transforms arg_scope_func_key
    crf_binary_score crf_log_norm crf_sequence_score crf_unary_score current_arg_scope gather_tree
    hardmax has_arg_scope output_size viterbi_decode""",
  "programs of the changelog use it: tensorflow/models, magenta's Onsets and Frames": """
    PrivateThreadPool StreamingFilesDataset override_threadpool wait_for_new_checkpoint""",
  "a few lines beside a used name": """
    DistributeConfig TPUStrategy assign_from_checkpoint audio flush get_name_scope
    has_distribution_strategy histogram initialize never_record_summaries print_model_analysis
    profile summary_writer_initializer_op with_shape""",
}


def _object(name):
  found = functools.reduce(getattr, name.split("."), tf)
  return getattr(found, "__module__", ""), getattr(found, "__qualname__", name.rpartition(".")[2])


def test_two_programs_use_each_name_of_contrib():
  used = collections.Counter()
  for name, programs in CENSUS.items():
    used[_object(name)] += programs
  names = [
    f"{public}.{name}"
    for public, table in tf.MODULES.items()
    if public.startswith("contrib.")
    for name in [
      *(name for name, (home, _) in table.homes.items() if home.startswith(".")),
      *(name for own in table.own for name in modules._public(modules._module(own))),
    ]
  ]
  rare = {
    name.rpartition(".")[2]
    for name in names
    # The package tf_slim and TensorFlow have the others, or one rule makes them all.
    if _object(name)[0].startswith("trainer.")
    and "tf_slim" not in _object(name)[0]
    and not name.startswith("contrib.metrics.streaming_")
    and used[_object(name)] < 2
  }
  assert rare == {name for names in KEPT.values() for name in names.split()}
