"""`import trainer.compat.v1 as tf`: TensorFlow's v1 names, and names that TensorFlow dropped.

A name comes from this package, then from `tf.compat.v1`, then from `tf`. A missing name raises an
AbsentNameError, with the reason and a replacement; its import raises an AbsentModuleError.

There are no files: MODULES lists the names of each module. See docs/architecture.md.
"""

from trainer.compat.estimator import virtual_cores
from trainer.compat.names import modules
from trainer.compat.names.modules import Names

virtual_cores.prepare()

_TF1 = "tensorflow.compat.v1"

# Programs choose imports and calls by the version: `if tf.__version__ < "2": tf.contrib...`.
_VERSION = {"VERSION": "1.15.5", "__version__": "1.15.5"}

# Names in the estimators of both TensorFlow 1 and 2.
ESTIMATOR = {
  "trainer": "ModeKeys WarmStartSettings",
  f"{_TF1}.train": """CheckpointSaverListener FinalOpsHook NanLossDuringTrainingError
    NanTensorHook SecondOrStepTimer SessionRunArgs SessionRunContext SessionRunHook
    SessionRunValues VocabInfo""",
  ".estimator.estimator": "Estimator",
  ".estimator.exporters": "BestExporter Exporter FinalExporter LatestExporter",
  ".estimator.extenders": "add_metrics",
  ".estimator.heads": """BinaryClassHead Head MultiClassHead MultiHead MultiLabelHead
    RegressionHead""",
  ".estimator.hooks": """CheckpointSaverHook GlobalStepWaiterHook LoggingTensorHook
    ProfilerHook StepCounterHook StopAtStepHook SummarySaverHook""",
  ".estimator.run_config": "RunConfig",
  ".estimator.specs": "EstimatorSpec",
  ".estimator.training": "EvalSpec TrainSpec train_and_evaluate",
}
CANNED = """DNNClassifier DNNEstimator DNNLinearCombinedClassifier DNNLinearCombinedEstimator
  DNNLinearCombinedRegressor DNNRegressor LinearClassifier LinearEstimator LinearRegressor"""
_RUN = "SessionRunArgs SessionRunContext SessionRunHook SessionRunValues"
_SLIM_NETS = """alexnet inception inception_v1 inception_v2 inception_v3 overfeat resnet_utils
  resnet_v1 resnet_v2 vgg"""
# Module inside of tf.estimator → its heads.
_HEADS = {
  "base_head": "Head",
  "binary_class_head": "BinaryClassHead",
  "multi_class_head": "MultiClassHead",
  "multi_head": "MultiHead",
  "multi_label_head": "MultiLabelHead",
  "regression_head": "RegressionHead",
}
EARLY_STOPPING = "make_early_stopping_hook stop_if_no_decrease_hook stop_if_no_increase_hook"
_OF_TPU = {
  ".estimator.run_config": "InputPipelineConfig RunConfig=TPURunConfig TPUConfig",
  ".estimator.specs": "TPUEstimatorSpec",
  ".estimator.tpu_estimator": "ExportSavedModelApiVersion TPUEstimator",
}

# Files of the package tf_slim.
_SLIM = ".contrib.tf_slim"
_LAYERS_OF_CONTRIB = [
  f"{_SLIM}.layers.{name}"
  for name in ("initializers", "layers", "normalization", "optimizers", "regularizers")
]
# It has other functions of these names: no dot, so that the homes precede it.
_VARIABLES = "trainer.compat.contrib.tf_slim.ops.variables"
_FRAMEWORK = {
  ".contrib.framework": "assign_from_checkpoint assign_from_checkpoint_fn get_name_scope with_shape"
}

# Module → its names.
MODULES = {
  "": Names(
    _TF1,
    "tensorflow",
    homes={
      ".graph_mode.behavior": """disable_control_flow_v2 disable_eager_execution
        disable_resource_variables disable_tensor_equality disable_v2_behavior
        disable_v2_tensorshape enable_control_flow_v2 enable_eager_execution
        enable_resource_variables enable_tensor_equality enable_v2_behavior enable_v2_tensorshape
        executing_eagerly set_random_seed""",
      ".graph_mode.differentiation": "gradients",
      ".graph_mode.eager_sessions": "InteractiveSession Session",
      ".graph_mode.host_calls": "variables_initializer",
      ".graph_mode.loops": "while_loop",
      ".graph_mode.placeholders": "placeholder placeholder_with_default sparse_placeholder",
      "tensorflow.version": "__git_version__=GIT_VERSION",
    },
    **_VERSION,
  ),
  "compat": Names("tensorflow.compat", homes={"trainer.compat": "v1 v2"}),
  "contrib": Names(),
  "contrib.autograph": Names("tensorflow.autograph", "tensorflow.autograph.experimental"),
  "contrib.bigtable": Names(),  # programs import it at their top, for an optional feature
  "contrib.cloud": Names(),  # the same
  "contrib.cluster_resolver": Names(
    "tensorflow.distribute.cluster_resolver",
    homes={".estimator.cluster_resolver": "TPUClusterResolver"},
  ),
  "contrib.compiler": Names(),
  "contrib.compiler.jit": Names(
    homes={f"{_TF1}.xla.experimental": "experimental_jit_scope=jit_scope"}
  ),
  "contrib.compiler.xla": Names(f"{_TF1}.xla.experimental"),
  "contrib.crf": Names(".contrib.crf"),
  "contrib.data": Names(
    ".contrib.data",
    "tensorflow.data.experimental",
    homes={f"{_TF1}.data": "Dataset FixedLengthRecordDataset TextLineDataset TFRecordDataset"},
  ),
  "contrib.distribute": Names(
    f"{_TF1}.distribute",
    "tensorflow.distribute",
    homes={
      ".estimator.strategies": """AllReduceCrossDeviceOps CollectiveAllReduceStrategy
        DistributeConfig MirroredStrategy OneDeviceStrategy TPUStrategy
        has_distribution_strategy=has_strategy"""
    },
  ),
  "contrib.estimator": Names(
    ".contrib.estimator",
    "trainer.compat.v1.estimator",
    "trainer.compat.v1.estimator.experimental",
    homes={
      ".estimator.extenders": "forward_features",
      # Older names, with the same arguments.
      ".estimator.heads": """binary_classification_head=BinaryClassHead
        multi_class_head=MultiClassHead multi_head=MultiHead multi_label_head=MultiLabelHead""",
      ".estimator.heads.older": "regression_head",
    },
  ),
  "contrib.framework": Names(
    ".layers.arg_scopes",
    _VARIABLES,
    homes=_FRAMEWORK
    | {
      "tensorflow": "argsort is_tensor sort",
      f"{_TF1}.train": """assert_global_step create_global_step get_global_step
        get_or_create_global_step init_from_checkpoint""",
      "tensorflow.train": "list_variables load_checkpoint load_variable",
      "trainer.internals.tensorflow_internals": "deprecated",
    },
  ),
  "contrib.framework.nest": Names(
    "tensorflow.nest", homes={"tensorflow.nest": "is_sequence=is_nested"}
  ),
  "contrib.image": Names(".contrib.image"),
  "contrib.layers": Names(
    *_LAYERS_OF_CONTRIB,
    f"{_TF1}.feature_column",
    homes={
      f"{_SLIM}.ops.variables": "model_variable",
      f"{_TF1}.nn": "safe_embedding_lookup_sparse",
    },
  ),
  "contrib.hooks": Names(homes={".estimator.hooks": "ProfilerHook"}),
  "contrib.keras": Names("trainer.compat.v1.keras"),
  "contrib.layers.utils": Names("trainer.compat.v1.contrib.slim.layers.utils"),
  "contrib.learn": Names(".contrib.learn", homes={".estimator.run_config": "RunConfig"}),
  "contrib.learn.learn_runner": Names(".contrib.learn_runner"),
  # contrib.learn.python.learn.estimators.rnn_common and others
  **{
    f"contrib.learn.estimators{part}": Names("trainer.compat.v1.contrib.learn")
    for part in ("", ".model_fn", ".rnn_common", ".run_config")
  },
  "contrib.lookup": Names(".contrib.lookup", f"{_TF1}.lookup", "tensorflow.lookup"),
  "contrib.losses": Names(
    homes={
      f"{_TF1}.losses": """add_loss compute_weighted_loss get_losses get_regularization_losses
        get_total_loss"""
    }
  ),
  "contrib.losses.metric_learning": Names(f"{_SLIM}.losses.metric_learning"),
  "contrib.metrics": Names(".contrib.metrics"),
  "contrib.opt": Names(".contrib.opt"),
  "contrib.predictor": Names(".contrib.predictor"),
  "contrib.quantize": Names(),  # as contrib.cloud
  "contrib.rnn": Names(
    ".layers.rnn_cell",
    ".contrib.normalized_rnn",
    ".layers.stacked_rnn",
    homes={f"{_TF1}.nn": "static_bidirectional_rnn static_rnn"},
  ),
  "contrib.seq2seq": Names(
    *(
      f".contrib.seq2seq.{name}"
      for name in ("attention", "beam_search", "decoding", "helpers", "loss")
    )
  ),
  "contrib.signal": Names("tensorflow.signal"),
  "contrib.slim": Names(
    *_LAYERS_OF_CONTRIB,
    ".layers.arg_scopes",
    _VARIABLES,
    homes=_FRAMEWORK
    | {_TF1: "losses", f"{_TF1}.train": "create_global_step get_or_create_global_step"},
  ),
  "contrib.slim.evaluation": Names(
    homes={".contrib.training": "wait_for_new_checkpoint", f"{_TF1}.train": "checkpoints_iterator"}
  ),
  "contrib.slim.data": Names(homes={f"{_SLIM}.data": "data_decoder"}),
  "contrib.slim.initializers": Names("trainer.compat.v1.contrib.layers"),
  # The package tf_slim has its parts in modules with these names.
  "contrib.slim.layers": Names("trainer.compat.v1.contrib.layers"),
  **{
    f"contrib.slim.layers.{part}": Names(f"{_SLIM}.layers.{part}")
    for part in ("initializers", "layers", "regularizers")
  },
  "contrib.slim.layers.utils": Names("trainer.compat.contrib.tf_slim.layers.utils"),
  "contrib.slim.learning": Names(
    homes={
      f"{_SLIM}.learning": """add_gradients_summaries clip_gradient_norms create_train_op
        multiply_gradients"""
    }
  ),
  "contrib.slim.model_analyzer": Names(f"{_SLIM}.model_analyzer"),
  "contrib.slim.metrics": Names("trainer.compat.v1.contrib.metrics"),
  "contrib.slim.parallel_reader": Names(homes={f"{_SLIM}.data.parallel_reader": "get_data_files"}),
  "contrib.slim.nets": Names(homes={f"{_SLIM}.nets": _SLIM_NETS}),
  **{
    f"contrib.slim.nets.{net}": Names(f"trainer.compat{_SLIM}.nets.{net}")
    for net in _SLIM_NETS.split()
  },
  "contrib.slim.ops": Names(),
  "contrib.slim.ops.arg_scope": Names(".layers.arg_scopes"),
  "contrib.slim.ops.variables": Names(_VARIABLES, homes=_FRAMEWORK),
  "contrib.slim.training": Names("trainer.compat.v1.contrib.training"),
  "contrib.slim.utils": Names("trainer.compat.v1.contrib.slim.layers.utils"),
  "contrib.slim.tfexample_decoder": Names(f"{_SLIM}.data.tfexample_decoder"),
  "contrib.stateless": Names(
    homes={
      "tensorflow.random": """stateless_multinomial=stateless_categorical
        stateless_random_normal=stateless_normal stateless_random_uniform=stateless_uniform
        stateless_truncated_normal"""
    }
  ),
  "contrib.summary": Names(
    ".contrib.summary", "tensorflow.summary", homes={".graph_mode.summary": "create_file_writer"}
  ),
  "contrib.tensorboard": Names(),
  "contrib.tensorboard.plugins": Names(),
  "contrib.tensorboard.plugins.projector": Names(
    ".contrib.projector", "tensorboard.plugins.projector"
  ),
  "contrib.tensorrt": Names(),  # as contrib.cloud
  "contrib.tfprof": Names(),
  "contrib.tfprof.model_analyzer": Names(".graph_mode.profiler"),
  "contrib.tfprof.tfprof_logger": Names(homes={f"{_TF1}.profiler": "write_op_log"}),
  "contrib.tpu": Names(
    ".estimator.tpu_functions",
    f"{_TF1}.tpu",
    homes=_OF_TPU
    | {
      "trainer": "CrossShardOptimizer",
      ".contrib.streaming_files": "StreamingFilesDataset=streaming_files_dataset",
      ".estimator.hooks": "AsyncCheckpointSaverHook",
    },
  ),
  "contrib.tpu.tpu_function": Names(".estimator.tpu_context"),
  "contrib.training": Names(
    ".contrib.training",
    f"{_TF1}.train",
    homes={
      f"{_SLIM}.training.training": """add_gradients_summaries clip_gradient_norms
        clip_gradient_norms_fn create_train_op multiply_gradients"""
    },
  ),
  "contrib.util": Names(
    homes={"tensorflow": "constant_value=get_static_value make_ndarray make_tensor_proto"}
  ),
  "data": Names(
    f"{_TF1}.data",
    "tensorflow.data",
    homes={".estimator.input_fns": "make_initializable_iterator make_one_shot_iterator"},
  ),
  "distribute": Names(
    f"{_TF1}.distribute",
    "tensorflow.distribute",
    homes={
      ".estimator.strategies": """MirroredStrategy MultiWorkerMirroredStrategy OneDeviceStrategy
        has_strategy"""
    },
  ),
  "distribute.cluster_resolver": Names(
    "tensorflow.distribute.cluster_resolver",
    homes={".estimator.cluster_resolver": "TPUClusterResolver"},
  ),
  "distribute.experimental": Names(
    "tensorflow.distribute.experimental",
    homes={".estimator.strategies": "MultiWorkerMirroredStrategy"},
  ),
  "estimator": Names(homes=ESTIMATOR | {".estimator.canned.estimators": CANNED}),
  "estimator.canned": Names(homes={".estimator.canned.estimators": CANNED}),
  **{
    f"estimator.canned.{module}": Names(
      ".estimator.canned.estimators",
      homes={
        ".estimator.canned.networks": "dnn_logit_fn_builder linear_logit_fn_builder",
        ".estimator.canned.of_keras": " ".join(f"{name}V2={name}" for name in CANNED.split()),
      },
    )
    for module in ("dnn", "dnn_linear_combined", "linear")
  },
  "estimator.canned.head": Names(
    homes={
      ".estimator.heads": "_Head=Head _binary_logistic_or_multi_class_head=classification",
      ".estimator.heads.older": """
        _binary_logistic_head_with_sigmoid_cross_entropy_loss=canned_binary_head
        _multi_class_head_with_softmax_cross_entropy_loss=canned_multi_class_head
        _regression_head=canned_regression_head""",
    }
  ),
  "estimator.canned.metric_keys": Names(homes={".estimator.canned.keys": "MetricKeys"}),
  "estimator.canned.optimizers": Names(".estimator.canned.named_optimizers"),
  "estimator.canned.prediction_keys": Names(homes={".estimator.canned.keys": "PredictionKeys"}),
  "estimator.early_stopping": Names(".estimator.early_stopping"),
  "estimator.estimator": Names(
    "trainer.compat.v1.estimator",
    homes={".estimator.estimator": "EstimatorV2=Estimator _load_global_step_from_checkpoint_dir"},
  ),
  "estimator.experimental": Names(
    homes={
      ".estimator.canned.networks": "call_logit_fn dnn_logit_fn_builder linear_logit_fn_builder",
      ".estimator.early_stopping": f"{EARLY_STOPPING} read_eval_metrics",
    }
  ),
  "estimator.export": Names(".estimator.export"),
  "estimator.extenders": Names(".estimator.extenders"),
  "estimator.head": Names(),
  **{
    f"estimator.head.{module}": Names(homes={".estimator.heads": names})
    for module, names in _HEADS.items()
  },
  "estimator.hooks": Names(".estimator.hooks"),
  "estimator.hooks.basic_session_run_hooks": Names(
    ".estimator.hooks", homes={f"{_TF1}.train": f"{_RUN} FinalOpsHook SecondOrStepTimer"}
  ),
  "estimator.hooks.session_run_hook": Names(homes={f"{_TF1}.train": _RUN}),
  "estimator.inputs": Names(".estimator.inputs"),
  **{
    module: Names(homes={".estimator.keras_estimator": "model_to_estimator"})
    for module in ("estimator.keras", "estimator.keras_lib", "keras.estimator")
  },
  "estimator.run_config": Names(".estimator.run_config"),
  "estimator.tpu": Names(homes=_OF_TPU | {".estimator.params": "TPUContext"}),
  "estimator.training": Names(".estimator.training"),
  "external_configurables": Names(".packages.external_configurables"),
  "feature_column": Names(
    f"{_TF1}.feature_column", homes={".estimator.feature_columns": "shared_embedding_columns"}
  ),
  "gin": Names(".packages.gin", "gin"),
  "gin.tf": Names(".packages.gin_tf"),
  "hub": Names(".packages.hub", "tensorflow_hub"),
  "keras": Names("tensorflow.keras"),
  # Keras is the same under the names of TensorFlow 1 and 2.
  **{
    f"keras.{module}": Names(f"trainer.compat.v2.keras.{module}")
    for module in (
      *("experimental", "layers", "layers.experimental", "layers.experimental.preprocessing"),
      *("losses", "metrics", "optimizers", "optimizers.experimental", "optimizers.legacy"),
      "regularizers",
    )
  },
  "keras.backend": Names(".graph_mode.learning_phase", "tensorflow.keras.backend"),
  "layers": Names(
    ".layers.legacy", ".layers.normalization", homes={".layers.base": "InputSpec Layer"}
  ),
  "logging": Names(".graph_mode.logging", f"{_TF1}.logging"),
  "metrics": Names(".graph_mode.metrics", f"{_TF1}.metrics"),
  "nn": Names(f"{_TF1}.nn", "tensorflow.nn"),
  "nn.rnn_cell": Names(".layers.rnn_cell"),
  "profiler": Names(
    f"{_TF1}.profiler", "tensorflow.profiler", homes={".graph_mode.profiler": "profile"}
  ),
  # Private modules of TensorFlow that lost names which programs use.
  "python": Names(),
  "python.control_flow_ops": Names(
    "tensorflow.python.ops.control_flow_ops",
    homes={".graph_mode.loops": "while_loop", _TF1: "Assert case cond switch_case"},
  ),
  "python.nest": Names(
    "tensorflow.python.util.nest", homes={"tensorflow.nest": "is_sequence=is_nested"}
  ),
  "python.ops": Names(
    "tensorflow.python.framework.ops", homes={"tensorflow": "IndexedSlices Tensor"}
  ),
  "summary": Names(
    f"{_TF1}.summary",
    "tensorflow.summary",
    homes={".graph_mode.summary": "FileWriter FileWriterCache create_file_writer scalar"},
  ),
  "test": Names(f"{_TF1}.test", homes={".graph_mode.test_case": "TestCase"}),
  "tf2": Names(homes={".graph_mode.behavior": "enabled=is_v2"}),
  "tpu": Names(".estimator.tpu_functions", f"{_TF1}.tpu", homes={"trainer": "CrossShardOptimizer"}),
  "tpu_function": Names(".estimator.tpu_context"),
  "train": Names(
    f"{_TF1}.train",
    "tensorflow.train",
    homes={
      ".estimator.hooks": ESTIMATOR[".estimator.hooks"],
      ".graph_mode.eager_sessions": """MonitoredSession MonitoredTrainingSession
        SingularMonitoredSession""",
    },
  ),
  "version": Names("tensorflow.version", **_VERSION),
}

__getattr__, __dir__ = modules.add(__name__, MODULES)
