"""The kinds of a run, the types of its settings, its durations and its batch sizes."""

__all__ = ["batch_sizes", "durations", "kinds", "setting_types"]
