"""tf.estimator.experimental: early stopping by the evaluations of a run, and logits of canned
networks.
"""

from trainer.compat.names import overlay

__getattr__, __dir__ = overlay.behind(
  __name__,
  homes=dict.fromkeys(
    (
      "make_early_stopping_hook",
      "make_stop_at_checkpoint_step_hook",
      "read_eval_metrics",
      "stop_if_higher_hook",
      "stop_if_lower_hook",
      "stop_if_no_decrease_hook",
      "stop_if_no_increase_hook",
    ),
    "trainer.compat.estimator.early_stopping",
  )
  | dict.fromkeys(
    ("call_logit_fn", "dnn_logit_fn_builder", "linear_logit_fn_builder"),
    "trainer.compat.estimator.canned.networks",
  )
  | {"InMemoryEvaluatorHook": "trainer.compat.estimator.evaluator_hook"},
)
