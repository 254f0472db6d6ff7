"""Estimators of TensorFlow 1 and 2.15 on trainer.Estimator, with their arguments and results."""
