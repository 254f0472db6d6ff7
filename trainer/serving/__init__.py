"""Predicts with an export: for files (`predict`), and for requests of clients (`serve`).

`predictor` runs an export; `loading` makes its `loaded_model`; that checks features by `arrays`.
For files, `examples`, `features` and `raw_values` read them, and `results` writes the predictions.

For clients, `tf_serving` turns the body of a request into a call of the model (`calls`);
`tf_serving_routes` has the paths, and answers with a `service`; that runs calls in batches
(`batching`). `catalogue` has the models of a server; `served_names` reads their names from flags.
`server` joins all paths, over `access`, `bodies`, `connections`, `refusals`, `measurements` and
`page`.
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
