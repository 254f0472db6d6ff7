"""The story of a server: export → engine → port."""

import contextlib
import importlib.util
import re
import socket
from typing import Any

from absl import logging

from trainer import errors
from trainer.cli import installation


def serve(
  export_base: str | None,
  name: str = "model",
  *,
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
  """Serves until it is interrupted.

  Args:
    export_base: see `predictor.newest_export`.
    name: the model's, in the paths.
    host: address to listen at.
    port: 0 for any free port; the log says which.
    engine: see `outputs.engines`.
    precision: see `outputs.engines`.
    max_batch: see `service.Service`.
    max_body: see max_bytes of `bodies.Limits`.
    read_secs: the most seconds in which the headers of a request arrive, and then its body.
    max_connections: see `connections.Connections`.
    access_log: see `access.Access`.
    **settings: others of `service.Service`.

  Raises:
    SettingError: a setting cannot work, the extra [serve] is missing, or the port is taken.
    InputError: there is no export.
  """
  if not export_base:
    raise errors.SettingError(
      "No --export_base. Try: python -m trainer.serve --export_base=out/digits/export"
    )
  if not re.fullmatch(r"[\w.-]+", name):
    raise errors.SettingError(f"--name={name}: expected letters, digits, dots and dashes.")
  missing = [module for module in ("fastapi", "uvicorn") if not importlib.util.find_spec(module)]
  if missing:
    raise errors.SettingError(
      f"trainer.serve needs {' and '.join(missing)}: `{installation.command('serve')}` brings it."
    )
  with contextlib.closing(_bind(host, port)) as listening:
    import uvicorn

    from trainer.serving import bodies, predictor, server, service
    from trainer.serving import connections as connections_lib

    batch_sizes = tuple(sorted({1, min(8, max_batch), max_batch}))
    model = predictor.Predictor(export_base, engine, batch_sizes=batch_sizes, precision=precision)
    connections = connections_lib.Connections(max_connections, read_secs)
    connections.allow_files()
    app = server.make_app(
      service.Service(model, name, max_batch=max_batch, **settings),
      bodies.Limits(max_body, read_secs),
      access_log=access_log,
      is_full=connections.is_full,
    )
    listening.listen(2048)  # from here on nobody is refused, though the first answers take a moment
    logging.info("Serving %s at http://%s:%d/", name, *listening.getsockname()[:2])
    config = uvicorn.Config(
      app,
      http=connections.protocol(),
      ws="none",
      log_config=None,
      access_log=False,  # it has neither durations nor sizes: `access` has a log
      timeout_keep_alive=30,
    )
    uvicorn.Server(config).run(sockets=[listening])


def _bind(host, port):
  """A socket, taken before the model is loaded: a port that others have is the quickest mistake."""
  try:
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(address)
  except OSError as error:
    raise errors.SettingError(f"--host={host} --port={port} cannot be had: {error}.") from error
  return listening
