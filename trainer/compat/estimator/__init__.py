"""Estimators of TensorFlow 1 and 2.15 on trainer.Estimator: what they take, read, run and give."""
