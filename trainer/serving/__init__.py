"""Predictions of an export: engines that run it, a Predictor, files in and out, a server."""

__all__ = ["batching", "examples", "features", "loaded_model", "predictor", "results", "server"]
