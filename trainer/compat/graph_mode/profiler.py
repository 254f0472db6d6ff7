"""tf.profiler.profile of a model_fn's graph, and its first names, those of tf.contrib.tfprof."""

from typing import Any

import tensorflow as tf

v1 = tf.compat.v1

_options = v1.profiler.ProfileOptionBuilder
TRAINABLE_VARS_PARAMS_STAT_OPTIONS = _options.trainable_variables_parameter()
FLOAT_OPS_OPTIONS = _options.float_operation()
PRINT_ALL_TIMING_MEMORY = _options.time_and_memory()


def profile(
  graph: tf.Graph | None = None,
  run_meta: Any = None,
  op_log: Any = None,
  cmd: str = "scope",
  options: Any = TRAINABLE_VARS_PARAMS_STAT_OPTIONS,
) -> Any:
  """As tf.profiler.profile, also of a model_fn's graph, which has its variables outside."""
  if graph is None and not tf.executing_eagerly():
    graph = v1.get_default_graph()
  if graph is not None and graph.building_function:
    variables = graph.get_collection(v1.GraphKeys.TRAINABLE_VARIABLES)
    definition = graph.as_graph_def()
    for node in definition.node:
      node.attr.pop("_class", None)  # colocation with a variable or iterator outside of the graph
    with tf.Graph().as_default() as graph:
      tf.import_graph_def(definition, name="")
      for variable in variables:
        zeros = tf.zeros(variable.shape, variable.dtype)
        v1.Variable(zeros, name=variable.name.partition(":")[0], use_resource=True)
  return v1.profiler.profile(graph, run_meta, op_log, cmd, options)


def print_model_analysis(
  graph: tf.Graph | None,
  run_meta: Any = None,
  op_log: Any = None,
  tfprof_cmd: str = "scope",
  tfprof_options: Any = TRAINABLE_VARS_PARAMS_STAT_OPTIONS,
) -> Any:
  """As `profile`, under its first name."""
  return profile(graph, run_meta, op_log, tfprof_cmd, tfprof_options)
