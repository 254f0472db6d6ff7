"""Canned estimators, their networks and their optimizers."""
