"""Predicts with an export: a Predictor, reading examples and writing results, and a server."""

__all__ = ["batching", "examples", "features", "loaded_model", "predictor", "results", "server"]
