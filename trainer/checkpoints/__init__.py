"""Checkpoints: write, read, keep, and start from them."""
