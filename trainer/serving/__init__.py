"""Predicts with an export: for files (`predict`), and for requests of clients (`serve`).

`loaded_model` and `predictor` run the export. `examples`, `features` and `results` read and write
files. `server`, `rest`, `batching`, `measurements` and `page` are the parts of the server.
"""

__all__ = [
  "batching",
  "examples",
  "features",
  "loaded_model",
  "predict_main",
  "predictor",
  "results",
  "serve_main",
  "server",
]
