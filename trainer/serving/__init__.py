"""Predicts with an export: for files (`predict`), and for requests of clients (`serve`).

`loaded_model` and `predictor` run the export. `examples`, `features` and `results` read and write
files. `service` answers bodies of requests by `rest` and `batching`; `catalogue` has all models of
a server, which `served_names` reads from flags. `server` has the paths, over `access`, `bodies`,
`connections`, `refusals`, `request_ids`, `measurements` and `page`.
"""

__all__ = [
  "batching",
  "catalogue",
  "examples",
  "features",
  "loaded_model",
  "predict_main",
  "predictor",
  "results",
  "serve_main",
  "server",
  "service",
]
