"""tf.estimator.experimental of TensorFlow 2.15."""

from trainer.compat.names import overlay

__getattr__, __dir__ = overlay.behind(
  __name__,
  homes=dict.fromkeys(
    (
      "InMemoryEvaluatorHook",
      "call_logit_fn",
      "make_early_stopping_hook",
      "make_stop_at_checkpoint_step_hook",
      "stop_if_higher_hook",
      "stop_if_lower_hook",
      "stop_if_no_decrease_hook",
      "stop_if_no_increase_hook",
    ),
    "trainer.compat.v1.estimator.experimental",
  ),
)
