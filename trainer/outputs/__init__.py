"""What leaves a run: SavedModels, the engines that run them, predictions."""

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
