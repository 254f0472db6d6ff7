"""Answers to unusable requests: a status, and {"error": "one sentence"}.

raise refusals.NotFoundError("There is no model 'cat' here.")
return refusals.response(error)                     # of any exception
"""

from collections.abc import Mapping
from typing import Any

from absl import logging

from trainer import errors
from trainer.serving import batching


class RefusedError(Exception):
  """The server refuses a request.

  Attributes:
    status: HTTP status of the answer.
    headers: headers of the answer.
  """

  status = 400
  headers: Mapping[str, str] = {}


class NotFoundError(RefusedError):
  """There is no such model, version or path."""

  status = 404


class MethodError(RefusedError):
  """The request has another method, and the path takes POST alone."""

  status = 405
  headers: Mapping[str, str] = {"Allow": "POST"}


class SlowError(RefusedError):
  """A request did not arrive in time."""

  status = 408
  # The rest of the body may still come. Only a new connection is certain to begin with a request.
  headers: Mapping[str, str] = {"Connection": "close"}


class TooLargeError(RefusedError):
  """A body has too many bytes."""

  status = 413


class EncodingError(RefusedError):
  """A body has a compression that the server does not know."""

  status = 415
  headers: Mapping[str, str] = {"Accept-Encoding": "gzip"}


class HungUpError(RefusedError):
  """The client closed the connection before its request had arrived.

  Nobody reads the answer. The measurements and the access log have this status, as nginx's do.
  """

  status = 499


class FullError(RefusedError):
  """Too many connections are open."""

  status = 503
  headers: Mapping[str, str] = {"Connection": "close", "Retry-After": "1"}


def response(error: Exception) -> Any:
  """Returns the answer to a request that raised an error; logs an error of the server itself.

  Args:
    error: a RefusedError, an exception of FastAPI, an OctetError (400), a BusyError (503), or any
      other exception (500); the traceback of the last goes to the log.
  """
  from starlette import exceptions, responses

  text = str(error)
  headers: Mapping[str, str] | None = None
  if isinstance(error, RefusedError):
    status, headers = error.status, error.headers
  elif isinstance(error, exceptions.HTTPException):
    # The framework refuses paths and methods that no handler takes.
    status, headers, text = error.status_code, error.headers, f"{error.detail}."
  elif isinstance(error, errors.OctetError):
    status = 400
  elif isinstance(error, batching.BusyError):
    status = 503
  else:
    status = 500
    logging.error("A request failed.", exc_info=error)
    text = "The model failed. The server's log says why."
  return responses.JSONResponse({"error": text}, status, headers)
