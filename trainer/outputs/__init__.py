"""Writes what leaves a run: SavedModels and predictions; has the engines that run an export."""

__all__ = [
  "completion",
  "contact_sheet",
  "description",
  "engines",
  "exporters",
  "options",
  "predictions",
  "saved_model",
  "signatures",
  "verification",
  "warm_up",
]
