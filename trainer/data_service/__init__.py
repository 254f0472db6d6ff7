"""The command that starts the processes of a tf.data service, see `trainer.inputs.data_service`."""

__all__: list[str] = []
