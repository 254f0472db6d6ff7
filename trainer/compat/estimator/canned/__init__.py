"""Canned estimators, and the networks and optimizers that they are made of."""
