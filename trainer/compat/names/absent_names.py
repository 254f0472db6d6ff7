"""Absent names of TensorFlow: the reason of each, and what to use instead."""

import importlib
from typing import Any

_TREES = (
  "TensorFlow removed the kernels of boosted trees.",
  "the package tensorflow-decision-forests, or XGBoost",
)
_INSIDE = "it is inside of tensorflow_estimator, not one of tf.estimator's public names."
_LEARN = "it belongs to the Estimators of tf.contrib.learn."
_RECURRENT = (
  "Octet does not reimplement its network.",
  "a model_fn with tf.nn.dynamic_rnn over a cell of tf.nn.rnn_cell",
)
_REWRITES = ("it rewrote a graph for a session.", "TPUEstimator, or tf.distribute.TPUStrategy")

_SLIM_LOOPS = (
  "it ran a session of its own.",
  "slim.learning.create_train_op in the model_fn of an Estimator",
)
_SLIM_DATA = (
  "it filled queues.",
  "a tf.data.Dataset of TFRecords, with slim.tfexample_decoder or tf.io.parse_example",
)
# Names that no two Estimator programs of the census use (tests/compat/census.csv) → replacement.
_UNUSED = {
  "contrib.compiler.xla.estimator_model_fn": "RunConfig(xla=True)",
  "contrib.data": {
    "padded_batch_and_drop_remainder": "dataset.padded_batch(..., drop_remainder=True)",
    "sloppy_interleave": "contrib.data.parallel_interleave(..., sloppy=True)",
  },
  "contrib.estimator": {
    "logistic_regression_head poisson_regression_head": (
      "contrib.estimator.regression_head with loss_fn and inverse_link_fn"
    )
  },
  "contrib.image": {
    "compose_transforms flat_transforms_to_matrices matrices_to_flat_transforms translate "
    "translations_to_projective_transforms": "contrib.image.transform"
  },
  "contrib.layers": {"bow_encoder embed_sequence": "get_variable and nn.embedding_lookup"},
  "contrib.learn": {
    "monitors": "hooks of tf.train",
    "select_last_activations": "tf.gather(..., batch_dims=1)",
  },
  "contrib.lookup.index_to_string_table_from_tensor": "lookup.index_to_string_table_from_file",
  "contrib.losses": {
    "absolute_difference cosine_distance hinge_loss log_loss mean_pairwise_squared_error "
    "mean_squared_error sigmoid_cross_entropy softmax_cross_entropy sparse_softmax_cross_entropy": (
      "tf.losses, which take labels in front of predictions"
    )
  },
  "contrib.metrics": {
    "aggregate_metric_map aggregate_metrics": "a dict of pairs for eval_metric_ops"
  },
  "contrib.nn": "tf.math",
  "contrib.opt": {
    "AdamWOptimizer DecoupledWeightDecayExtension MomentumWOptimizer "
    "extend_with_decoupled_weight_decay": (
      "an optimizer of tf.train, after variable.assign_sub(rate * variable)"
    ),
    "NadamOptimizer": "tf.train.AdamOptimizer",
  },
  "contrib.predictor.from_estimator": "export_saved_model, and predictor.from_saved_model",
  "contrib.rnn": {
    "Conv1DLSTMCell Conv2DLSTMCell Conv3DLSTMCell ConvLSTMCell": "keras.layers.ConvLSTM2D",
    "FusedRNNCellAdaptor LSTMBlockFusedCell TimeReversedFusedRNN": (
      "nn.dynamic_rnn over nn.rnn_cell.LSTMCell"
    ),
    "InputProjectionWrapper OutputProjectionWrapper": "layers.dense before or after the cell",
    "LSTMBlockCell NASCell": "nn.rnn_cell.LSTMCell",
  },
  "contrib.seq2seq": {
    "CustomHelper InferenceHelper SampleEmbeddingHelper ScheduledOutputTrainingHelper": (
      "a subclass of seq2seq.Helper, or another helper"
    )
  },
  "estimator": {
    "BaselineClassifier BaselineEstimator BaselineRegressor": "a model_fn with one variable",
    "LogisticRegressionHead PoissonRegressionHead": (
      "estimator.RegressionHead with loss_fn and inverse_link_fn"
    ),
    "classifier_parse_example_spec regressor_parse_example_spec": (
      "feature_column.make_parse_example_spec, and a tf.io.FixedLenFeature for the label"
    ),
  },
  "estimator.experimental": {
    "InMemoryEvaluatorHook": "estimator.train_and_evaluate",
    "make_stop_at_checkpoint_step_hook": "estimator.StopAtStepHook",
    "stop_if_higher_hook stop_if_lower_hook": "estimator.experimental.make_early_stopping_hook",
  },
}


def _unused() -> dict[str, tuple[str, str]]:
  reason = "no two programs of Octet's census use it."
  found = {}
  for module, names in _UNUSED.items():
    if isinstance(names, str):
      found[module] = reason, names
    else:
      for several, replacement in names.items():
        found |= {f"{module}.{name}": (reason, replacement) for name in several.split()}
  return found


# Name → (reason, replacement). An entry covers all names below it.
TABLE = (
  _unused()
  | {
    "contrib.boosted_trees": _TREES,
    "contrib.estimator.boosted_trees_classifier_train_in_memory": _TREES,
    "contrib.estimator.boosted_trees_regressor_train_in_memory": _TREES,
    "contrib.bigtable": ("it read from a database of Google's cloud.", "files of TFRecord"),
    "contrib.cloud": ("it read from services of Google's cloud.", "files of TFRecord"),
    "contrib.cudnn_rnn": (
      "its kernels store weights in one opaque buffer.",
      "contrib.rnn cells, or keras.layers.LSTM and GRU, which use cuDNN on a GPU",
    ),
    "contrib.distribute.ParameterServerStrategy": (
      "every device holds all variables.",
      "contrib.distribute.MirroredStrategy",
    ),
    "contrib.distributions": (
      "it left for a package of its own.",
      "tf.compat.v1.distributions, or tensorflow_probability.distributions",
    ),
    "contrib.factorization": (
      "its kernels are gone.",
      "scikit-learn's clusters and factorizations",
    ),
    "contrib.graph_editor": ("it edited graphs of sessions.", "the model_fn itself"),
    "contrib.lite": ("it moved.", "tf.lite"),
    "contrib.opt.MovingAverageOptimizer": (
      "its Saver wrote averages in the place of variables.",
      "tf.train.ExponentialMovingAverage",
    ),
    "contrib.saved_model": ("it moved.", "tf.saved_model"),
    "contrib.training.bucket_by_sequence_length": (
      "it filled queues.",
      "tf.data.experimental.bucket_by_sequence_length",
    ),
    "contrib.eager.list_devices": ("it moved.", "tf.config.list_logical_devices"),
    "contrib.eager": (
      "it is TensorFlow's own way of working today.",
      "tf.GradientTape for gradients, and the same names in tf and tf.compat.v1",
    ),
    "contrib.feature_column": ("it moved.", "tf.feature_column"),
    "contrib.gan": (
      "it left for a package of its own, tensorflow-gan.",
      "a copy of that package's folder, whose imports python -m trainer.compat --write changes",
    ),
    "contrib.learn.Estimator": (
      "tf.contrib.learn had another Estimator, whose model_fn returns a ModelFnOps.",
      "estimator.Estimator",
    ),
    "contrib.learn.MetricSpec": (_LEARN, "eval_metric_ops of the EstimatorSpec"),
    "contrib.learn.ModelFnOps": (_LEARN, "estimator.EstimatorSpec"),
    "contrib.learn.monitors.ValidationMonitor": (_LEARN, "estimator.train_and_evaluate"),
    "contrib.learn.datasets": (_LEARN, "keras.datasets, or the package tensorflow-datasets"),
    "contrib.learn.utils": (_LEARN, "estimator.LatestExporter"),
    "contrib.memory_stats": ("it moved.", "tf.config.experimental.get_memory_info"),
    "contrib.mixed_precision": (
      "it scaled losses by operations of a session.",
      "contrib.tpu.bfloat16_scope",
    ),
    "contrib.quantize": (
      "it rewrote graphs of sessions.",
      "the package tensorflow-model-optimization",
    ),
    "contrib.slim.learning.train": _SLIM_LOOPS,
    "contrib.slim.data_decoder": _SLIM_DATA,
    "contrib.slim.dataset": _SLIM_DATA,
    "contrib.slim.dataset_data_provider": _SLIM_DATA,
    "contrib.slim.parallel_reader.parallel_read": _SLIM_DATA,
    "contrib.slim.queues": _SLIM_DATA,
    "contrib.tensorrt": ("it moved.", "tf.experimental.tensorrt"),
    "estimator.BoostedTreesClassifier": _TREES,
    "estimator.BoostedTreesEstimator": _TREES,
    "estimator.BoostedTreesRegressor": _TREES,
    "estimator.FeedFnHook": (
      "there are no placeholders to feed.",
      "an input_fn that gives a dataset",
    ),
    "estimator.experimental.KMeans": (
      "it kept its state in queues and sessions.",
      "sklearn.cluster.MiniBatchKMeans",
    ),
    "estimator.experimental.LinearSDCA": (
      "it solved the dual problem in tables of a session.",
      "estimator.LinearClassifier or LinearRegressor with tf.train.FtrlOptimizer",
    ),
    "estimator.experimental.RNNClassifier": _RECURRENT,
    "estimator.experimental.RNNEstimator": _RECURRENT,
    "estimator.experimental.build_raw_supervised_input_receiver_fn": (
      "only mode PREDICT is exported.",
      "estimator.export.build_raw_serving_input_receiver_fn",
    ),
    "estimator.gc": (_INSIDE, "exports_to_keep of estimator.BestExporter or LatestExporter"),
    "estimator.util": (
      _INSIDE,
      "inspect.signature for fn_args, a tf.data.Dataset from the input_fn",
    ),
    "examples.tutorials": (
      "TensorFlow installs no tutorials any more.",
      "keras.datasets, or the package tensorflow-datasets",
    ),
    "keras.callbacks.experimental": ("it moved.", "keras.callbacks.BackupAndRestore"),
    "keras.layers.enable_v2_dtype_behavior": ("Keras 3 always behaves so.", "no call"),
    "keras.utils.multi_gpu_model": ("Keras dropped it.", "tf.distribute.MirroredStrategy"),
    "keras.backend.get_session": (
      "Keras 3 has no session.",
      "a hook's session in a training, or a tf.Session in a tf.Graph of its own",
    ),
    "estimator.head.sequential_head": (_INSIDE, "a model_fn with tf.nn.dynamic_rnn"),
    "estimator.tpu.experimental": (
      "it drove the embedding memory of a TPU through TPUEstimator's infeed.",
      "tf.compat.v1.feature_column.embedding_column, or get_variable and tf.gather",
    ),
    "estimator.tpu.tpu_estimator": (
      _INSIDE,
      "estimator.tpu.TPUEstimator, TPUEstimatorSpec, TPUConfig or RunConfig",
    ),
    "hub.Module": (
      "tensorflow_hub dropped it after version 0.15.",
      "tf.saved_model.load, or a network of the program's own and tf.train.init_from_checkpoint of "
      "the module's variables",
    ),
    "data.experimental.CheckpointInputPipelineHook": (
      "a checkpoint has the position in the data.",
      "no hook",
    ),
    "keras.experimental.SequenceFeatures": (
      "Keras 3 has no layers of feature columns.",
      "keras.layers.DenseFeatures for columns that are no sequences",
    ),
  }
  | {
    f"contrib.layers.{name}": (
      "tf.contrib.layers had other feature columns.",
      f"feature_column.{replacement}",
    )
    for name, replacement in (
      ("create_feature_spec_for_parsing", "make_parse_example_spec"),
      ("real_valued_column", "numeric_column"),
      ("sparse_column_with_integerized_feature", "categorical_column_with_identity"),
      ("weighted_sparse_column", "weighted_categorical_column"),
      ("weighted_sum_from_feature_columns", "linear_model"),
    )
  }
  | {
    f"contrib.image.{name}": ("it left for a package of its own.", "tf.image")
    for name in ("bipartite_match", "connected_components", "dense_image_warp", "sparse_image_warp")
  }
  | {
    f"{module}.{name}": _REWRITES
    for module in ("contrib.tpu", "tpu")
    for name in ("batch_parallel", "replicate", "rewrite", "shard")
  }
  | {
    f"contrib.learn.{kind}{what}": (
      "tf.contrib.learn had other Estimators, with columns and checkpoints of their own.",
      f"estimator.{kind}{what} with columns of tf.feature_column",
    )
    for kind in ("DNN", "DNNLinearCombined", "Linear")
    for what in ("Classifier", "Regressor")
  }
)


def is_known(name: str) -> bool:
  """Returns whether a name cannot work here, even if TensorFlow still has it."""
  return _entry(name) is not None


def reason_and_replacement(name: str, is_v2: bool = False) -> tuple[str, str]:
  """Returns (the reason of a dotted name's absence, a replacement or "").

  Args:
    is_v2: whether the program looks among the names of TensorFlow 2.
  """
  entry = _entry(name)
  if entry is not None and not (is_v2 and name.startswith("contrib.")):
    return entry
  if is_v2:
    return _reason_in_v2(name)
  if name.startswith("contrib."):
    return "of tf.contrib, only what Estimator programs use is here.", ""
  if name.startswith("estimator.") and (name.count(".") > 1 or name[len("estimator.")].islower()):
    return _INSIDE, ""
  return "neither this package nor the installed TensorFlow has it.", ""


def _reason_in_v2(name: str) -> tuple[str, str]:
  """Returns why TensorFlow 2's names lack a name, perhaps because it is TensorFlow 1's."""
  # Keras is the same module in both versions: asking it again would recurse to here.
  found: Any = None if name.startswith("keras.") else importlib.import_module("trainer.compat.v1")
  for part in name.split("."):
    found = getattr(found, part, None)
    if found is None:
      return "neither this package nor the installed TensorFlow has it.", ""
  return "it is a name of TensorFlow 1.", f"tf.compat.v1.{name}"


def _entry(name: str) -> tuple[str, str] | None:
  """Returns the entry of a name, or of its longest prefix with an entry."""
  # contrib.learn.python.learn.datasets is contrib.learn.datasets.
  outer, _, inner = name.partition(".python.")
  parts = [*outer.split("."), *inner.split(".")[1:]] if inner else name.split(".")
  for end in range(len(parts), 0, -1):
    found = TABLE.get(".".join(parts[:end]))
    if found is not None:
      return found
  return None
