"""Programs written for the Estimators or TPUEstimators of TensorFlow 1 and 2.15.

In such a program, `trainer.compat.v1` replaces `import tensorflow as tf`.
`python -m trainer.compat PATH...` reports what a program uses, and changes its imports. See
docs/migrate_from_tpuestimator.md.
"""
