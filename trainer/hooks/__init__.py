"""Hooks: code that a training calls between its device loops.

A hook is a callable `hook(step, metrics, estimator)`. The training calls it after every device loop
with the global step and a dict of floats ("loss" and the scalars that the model_fn gave to
tf.summary). If it returns a true value, the training ends. A hook may also have these methods:

    begin(estimator)                              called before the first loop; a true result ends
                                                  the training before it starts
    before_loop()                                 called before every device loop
    end(step, estimator)                          called after the last loop
    failed(error, estimator)                      called if an exception ends the training
    finished(estimator)                           called when the last checkpoint is evaluated and
                                                  exported, or after `end` where nothing is
    evaluated(step, name, metrics, estimator)     called after an evaluation in this process; a
                                                  true result ends the training. Called again
                                                  after a restart, and after `begin`, if the process
                                                  was killed before the evaluation was done
    check_metrics(names)                          called before a training, where evaluations
                                                  follow, with the names of their metrics
    next_step(step)                               returns the next step at which the hook wants to
                                                  be called, or None. A loop then ends there, unless
                                                  iterations_per_loop is set
    reads_variables                               False, if the hook takes variables from
                                                  `estimator.variables` alone, when it needs them.
                                                  Before other hooks, XLA devices give theirs to
                                                  the host after every loop

Hooks of tf.compat.v1 (SessionRunHook) work too, see `trainer.hooks.session_run`.

At each checkpoint, the training calls the saving listeners: `run.saving_listeners` in gin,
`saving_listeners` of Estimator.train or TrainSpec. They are objects with the methods of
tf.compat.v1.train.CheckpointSaverListener:

    begin()                                       before the first loop
    before_save(None, step)                       before the write of a checkpoint
    after_save(None, step)                        after the write; a true result ends the training
    end(None, step)                               after the last checkpoint
"""

__all__ = [
  "early_stopping",
  "estimator_protocol",
  "every",
  "histograms",
  "hook_list",
  "periodic",
  "profiler",
  "saving_listeners",
  "session_run",
]
