"""The story of a server: exports → engines → port."""

import contextlib
import gc
import importlib.util
import logging as logging_lib
import socket
from collections.abc import Sequence
from typing import Any

from absl import logging

from trainer import errors
from trainer.cli import installation
from trainer.serving import served_names


def serve(
  export_base: str | None,
  name: str = "model",
  *,
  models: Sequence[str] = (),
  host: str = "127.0.0.1",
  port: int = 8501,
  engine: str = "auto",
  precision: str = "float32",
  max_batch: int = 64,
  max_body: int = 16 << 20,
  read_secs: float = 30.0,
  max_connections: int = 4096,
  access_log: bool = False,
  **settings: Any,
) -> None:
  """Serves until an interrupt.

  Args:
    export_base: see `predictor.newest_export`; None with models.
    name: the model's, in the paths.
    models: "NAME=DIR" each, instead of export_base and name.
    host: address to listen at.
    port: 0 for any free port; the log names it.
    engine: see `outputs.engines`.
    precision: see `outputs.engines`.
    max_batch: see `service.Service`.
    max_body: see max_bytes of `bodies.Limits`.
    read_secs: the most seconds for the headers of a request to arrive, and again for its body.
    max_connections: see `connections.Connections`.
    access_log: whether uvicorn logs a line for each request.
    **settings: other settings of `service.Service`.

  Raises:
    SettingError: a setting cannot work, the extra [serve] is missing, or another process has the
      port.
    InputError: there is no export.
  """
  folders = _folders(export_base, name, models)
  _require_server()
  with contextlib.closing(_bind(host, port)) as listening:
    import uvicorn

    from trainer.serving import bodies, catalogue, server
    from trainer.serving import connections as connections_lib

    _collect_garbage_seldom()
    served = catalogue.load(
      folders,
      dict(
        engine=engine,
        precision=precision,
        batch_sizes=tuple(sorted({1, min(8, max_batch), max_batch})),
      ),
      max_batch=max_batch,
      **settings,
    )
    connections = connections_lib.Connections(max_connections, read_secs)
    connections.allow_files()
    app = server.make_app(served, bodies.Limits(max_body, read_secs), is_full=connections.is_full)
    # Only now: an open port means that the models are loaded.
    listening.listen(2048)  # connections wait here until uvicorn has started
    address = listening.getsockname()[:2]
    logging.info("Serving %s at http://%s:%d/", ", ".join(folders), *address)
    config = uvicorn.Config(
      app,
      http=connections.protocol(),
      ws="none",
      log_config=None,
      access_log=access_log,
      timeout_keep_alive=30,
    )
    if access_log:  # The logger has no level of its own, and hides the lines.
      logging_lib.getLogger("uvicorn.access").setLevel(logging_lib.INFO)
    uvicorn.Server(config).run(sockets=[listening])


def _require_server():
  missing = [
    module
    for module in ("fastapi", "prometheus_client", "uvicorn")
    if not importlib.util.find_spec(module)
  ]
  if missing:
    raise errors.SettingError(
      f"trainer.serve needs {', '.join(missing)}: `{installation.command('serve')}` brings it."
    )


def _collect_garbage_seldom():
  """Spares requests the full garbage collections that many new connections bring about.

  A full collection visits the 450,000 objects of the imports and stops all requests for 0.3 s (AMD
  EPYC). These objects live to the end. So this function freezes them. Models load later, and the
  collector frees them once newer exports replace them. The objects of 2,000 connections take 0.1 s,
  and Python's thresholds of 700 and 10 would visit them too often.
  """
  gc.collect()
  gc.freeze()
  gc.set_threshold(20_000, 20, 20)


def _folders(export_base, name, models):
  """Returns the name of each model → its folder of exports."""
  if bool(export_base) == bool(models):
    raise errors.SettingError(
      "Expected --export_base or --model, not both."
      if models
      else "No --export_base, and no --model. Try: "
      "python -m trainer.serve --export_base=out/digits/export"
    )
  if models:
    return served_names.parse_models(models)
  served_names.check_name(name, f"--name={name}")
  return {name: export_base}


def _bind(host, port):
  """Binds a socket. The models load later, so that a taken port fails at once."""
  try:
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(address)
  except OSError as error:
    raise errors.SettingError(
      f"--host={host} --port={port}: cannot listen there: {error}."
    ) from error
  return listening
