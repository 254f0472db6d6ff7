"""Writes a run's results, SavedModels and predictions; has the engines that run an export."""

__all__ = [
  "contact_sheet",
  "description",
  "engines",
  "exported_records",
  "exporters",
  "numbered_exports",
  "options",
  "prediction_stream",
  "predictions",
  "preprocessing",
  "random_inputs",
  "samples",
  "saved_model",
  "served_inputs",
  "signatures",
  "verification",
  "warm_up",
]
