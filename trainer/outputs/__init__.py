"""What leaves a run: SavedModels and predictions."""
