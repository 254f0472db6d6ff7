"""Estimator: trains, evaluates, predicts and exports, each by a part of the rooms below."""

__all__ = ["estimator", "keras_model", "parts"]
