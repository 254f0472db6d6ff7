"""What is done around the loop, at its boundaries.

A hook is a callable `hook(step, metrics, estimator)`, called after every device loop with the
global step and a dict of floats ("loss" and what the model_fn gave to tf.summary). A true result
ends the training. It may also have

    begin(estimator)                              before the first loop; a true result ends the
                                                  training there
    end(step, estimator)                          after the last one
    evaluated(step, name, metrics, estimator)     after an evaluation in this process; a true result
                                                  ends the training
    next_step(step)                               the next step at which it wants to be called, or
                                                  None: a loop ends there, unless its length is set

Hooks of tf.compat.v1 (SessionRunHook) are taken as well, see `trainer.hooks.session_run`.
"""

__all__ = ["early_stopping", "every", "histograms", "periodic", "profiler", "session_run"]
