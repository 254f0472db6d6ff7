"""The story of a server: export → engine → port."""

import importlib.util
import re
import socket

from absl import logging

from trainer import errors
from trainer.cli import installation


def run(
  export_base: str | None,
  name: str = "model",
  *,
  host: str = "127.0.0.1",
  port: int = 8501,
  engine: str = "auto",
  precision: str = "float32",
  max_batch: int = 64,
  batch_wait_secs: float = 0.0,
  reload_secs: float = 5.0,
  max_body: int = 16 << 20,
) -> None:
  """Serves until it is interrupted.

  Args:
    export_base: see `predictor.newest_export`.
    name: the model's, in the paths.
    host: address to listen at.
    port: 0 for any free port; the log says which.
    engine: see `outputs.engines`.
    precision: see `outputs.engines`.
    max_batch: see `server.Service`.
    batch_wait_secs: see `server.Service`.
    reload_secs: see `server.Service`.
    max_body: see `server.Service`.

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
  listening = _listen(host, port)
  try:
    _serve(
      listening,
      export_base,
      name,
      engine,
      precision,
      max_batch,
      batch_wait_secs,
      reload_secs,
      max_body,
    )
  finally:
    listening.close()


def _listen(host, port):
  """A socket, taken before the model is loaded: a port that others have is the quickest mistake."""
  try:
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(address)
  except OSError as error:
    raise errors.SettingError(f"--host={host} --port={port} cannot be had: {error}.") from error
  return listening


def _serve(
  listening, export_base, name, engine, precision, max_batch, batch_wait_secs, reload_secs, max_body
):
  import uvicorn

  from trainer.serving import predictor, server

  model = predictor.Predictor(
    export_base,
    engine,
    batch_sizes=tuple(sorted({1, min(8, max_batch), max_batch})),
    precision=precision,
  )
  service = server.Service(
    model,
    name,
    max_batch=max_batch,
    batch_wait_secs=batch_wait_secs,
    reload_secs=reload_secs,
    max_body=max_body,
  )
  listening.listen(2048)  # from here on nobody is refused, though the first answers take a moment
  host, port = listening.getsockname()[:2]
  logging.info("Serving %s at http://%s:%d/", name, host, port)
  config = uvicorn.Config(
    server.make_app(service), log_config=None, access_log=False, timeout_keep_alive=30
  )
  uvicorn.Server(config).run(sockets=[listening])
