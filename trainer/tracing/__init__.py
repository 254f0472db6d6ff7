"""What surrounds a model_fn while it is traced: its variables, Keras's state, random seeds."""
