from trainer.internals import libtpu_environment

# Before anything imports TensorFlow, which may be tensorflow-tpu.
libtpu_environment.skip_metadata_query()
