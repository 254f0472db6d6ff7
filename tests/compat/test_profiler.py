"""tf.profiler.profile, and its names in tf.contrib.tfprof."""

import pytest

import trainer.compat.v1 as tf


def _profile():
  options = tf.profiler.ProfileOptionBuilder.trainable_variables_parameter()
  return tf.profiler.profile(tf.get_default_graph(), options=dict(options, output="none"))


def _older():
  analyzer = tf.contrib.tfprof.model_analyzer
  options = dict(analyzer.TRAINABLE_VARS_PARAMS_STAT_OPTIONS, output="none")
  return analyzer.print_model_analysis(tf.get_default_graph(), tfprof_options=options)


@pytest.mark.parametrize("profile", [_profile, _older])
def test_variables_outside_of_the_graph_of_a_function_count(profile):
  found = []

  @tf.function(autograph=False)
  def call(x):
    with tf.colocate_with(variable.handle):
      y = x @ variable
    found.append(profile())
    return y

  with tf.Graph().as_default():
    variable = tf.get_variable("w", [3, 4], use_resource=True)
    call.get_concrete_function(tf.ones([2, 3]))
  assert found[0].total_parameters == 12
  assert (found[0].children[0].name, found[0].children[0].parameters) == ("w", 12)


def test_a_graph_of_a_session_is_profiled_as_it_is():
  with tf.Graph().as_default():
    tf.get_variable("w", [3, 4])
    assert _profile().total_parameters == 12
