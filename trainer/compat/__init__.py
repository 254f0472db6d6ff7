"""Programs written for TensorFlow 1 and 2.15 that use Estimator or TPUEstimator.

`trainer.compat.v1` takes the place of `import tensorflow as tf` in such a program, and
`python -m trainer.compat PATH...` says what a program uses and changes its imports. See
docs/migrate_from_tpuestimator.md.
"""
