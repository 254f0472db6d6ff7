"""Serves the newest export of a folder: a REST API, and a page to try the model.

  python -m trainer.serve --export_base=out/cifar10/export --name=cifar10
  python -m trainer.serve --model=cats=out/cats/export --model=dogs=out/dogs/export
  curl http://127.0.0.1:8501/v1/models/cifar10/metadata

The paths are those of TensorFlow Serving. When a newer export appears, the server loads it and
switches without losing a request. Ctrl-C ends the server.
"""

from absl import flags

from trainer.serving import engine_flags

_EXPORT_BASE = flags.DEFINE_string(
  "export_base", None, "A folder of exports, to serve its newest; or one SavedModel."
)
_NAME = flags.DEFINE_string("name", "model", "The model's name in the paths.")
_MODELS = flags.DEFINE_multi_string(
  "model",
  [],
  "NAME=DIR, instead of --name and --export_base. Repeat the flag to serve several models.",
)
_HOST = flags.DEFINE_string(
  "host", "127.0.0.1", "The address to listen at; 0.0.0.0 for all networks of this machine."
)
_PORT = flags.DEFINE_integer("port", 8501, "The port.", lower_bound=0, upper_bound=65535)
flags.adopt_module_key_flags(engine_flags)
_MAX_BATCH = flags.DEFINE_integer(
  "max_batch", 64, "The most examples in a call of the model.", lower_bound=1
)
_RELOAD_SECS = flags.DEFINE_float(
  "reload_secs", 5.0, "How often to look for a newer export; 0 for never.", lower_bound=0.0
)
_MAX_BODY_MB = flags.DEFINE_float(
  "max_body_mb", 16.0, "The largest body of a request, in MiB, inflated.", lower_bound=0.001
)
_READ_SECS = flags.DEFINE_float(
  "read_secs",
  30.0,
  "How long the headers of a request may take to arrive, and then its body; 0 for no limit.",
  lower_bound=0.0,
)
_MAX_CONNECTIONS = flags.DEFINE_integer(
  "max_connections", 4096, "The most open connections; further requests get 503.", lower_bound=1
)
_ACCESS_LOG = flags.DEFINE_bool(
  "access_log", False, "Log each request: client, method, path, status."
)


def main(argv: list[str]) -> None:
  """Serves until an interrupt."""
  del argv
  # This imports TensorFlow and takes seconds: only after parsing the flags.
  from trainer.serving import serve

  serve.serve(
    _EXPORT_BASE.value,
    _NAME.value,
    models=_MODELS.value,
    host=_HOST.value,
    port=_PORT.value,
    engine=engine_flags.ENGINE.value,
    precision=engine_flags.PRECISION.value,
    max_batch=_MAX_BATCH.value,
    reload_secs=_RELOAD_SECS.value,
    max_body=int(_MAX_BODY_MB.value * 2**20),
    read_secs=_READ_SECS.value,
    max_connections=_MAX_CONNECTIONS.value,
    access_log=_ACCESS_LOG.value,
  )
