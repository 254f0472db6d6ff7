"""Reads the body of a request, within limits of size and time."""

import asyncio
import dataclasses
import zlib
from typing import Any

from trainer import errors
from trainer.serving import refusals


@dataclasses.dataclass(frozen=True)
class Limits:
  """What a client may ask of the server.

  Attributes:
    max_bytes: the most bytes of a body, compressed and inflated.
    read_secs: the most seconds for the arrival of a body; 0 for no limit.
  """

  max_bytes: int = 16 << 20
  read_secs: float = 30.0


async def read(request: Any, limits: Limits) -> bytes:
  """Reads the body of a request, and inflates a gzip body.

  Args:
    request: of FastAPI.
    limits: of size and time.

  Raises:
    TooLargeError, SlowError: the body is beyond a limit.
    EncodingError: its Content-Encoding is not gzip.
    HungUpError: the client closed the connection.
    InputError: the body is no whole gzip.
  """
  from starlette import requests

  # Refuse the encoding before the body arrives.
  encoding = request.headers.get("content-encoding", "identity").strip().lower()
  if encoding not in ("identity", "gzip", "x-gzip"):
    raise refusals.EncodingError(
      f"Content-Encoding is {encoding[:50]!r}: expected gzip, or no encoding."
    )
  try:
    async with asyncio.timeout(limits.read_secs or None):
      body = await _received(request, limits.max_bytes)
  except TimeoutError:
    raise refusals.SlowError(
      f"The body did not arrive within {limits.read_secs:g} s (--read_secs)."
    ) from None
  except requests.ClientDisconnect:
    raise refusals.HungUpError("The client closed the connection.") from None
  if encoding == "identity":
    return body
  return await asyncio.to_thread(_inflated, body, limits.max_bytes)


async def _received(request, most):
  # The header may be missing or wrong, so count the bytes too.
  announced = request.headers.get("content-length", "")
  if announced.isdigit() and int(announced) > most:
    raise _too_large(most)
  parts, size = [], 0
  async for part in request.stream():
    parts.append(part)
    size += len(part)
    if size > most:
      raise _too_large(most)
  return b"".join(parts)


def _inflated(body, most):
  """Inflates a body, up to the limit: a few KiB of gzip can hold gigabytes."""
  inflater = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)  # 16: with the header of gzip
  try:
    inflated = inflater.decompress(body, most + 1)  # One byte too many proves a larger body.
  except zlib.error as error:
    raise errors.InputError(f"The body is no gzip: {error}.") from error
  if len(inflated) > most:
    raise _too_large(most, " after gzip")
  if not inflater.eof:
    raise errors.InputError("The body is no whole gzip: its end is missing.")
  if inflater.unused_data:
    raise errors.InputError("The body has more after the end of its gzip.")
  return inflated


def _too_large(most, when=""):
  return refusals.TooLargeError(
    f"The body is larger than {most / 2**20:.3g} MiB{when} (--max_body_mb)."
  )
