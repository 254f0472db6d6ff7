"""Answers the requests that call a model, of any protocol, and counts them."""

import time
from typing import Any

from trainer.serving import bodies, calls, refusals
from trainer.serving.catalogue import Catalogue


async def answer(
  request: Any,
  catalogue: Catalogue,
  limits: bodies.Limits,
  verb: str,
  read: calls.Read,
  asked: tuple[str, str | None, str | None],
) -> Any:
  """Returns the response to a request, even to an unusable one.

  Args:
    request: of FastAPI.
    catalogue: the models.
    limits: of the body.
    verb: the kind of the request, by its name in the measurements.
    read: reads the body.
    asked: (name, version, label), see `Catalogue.find`.

  Raises:
    NotFoundError: there is no such model. The measurements are by model, and do not count it.
  """
  from fastapi import responses

  catalogue.require(asked[0])
  start = time.perf_counter()
  try:
    # Before the body arrives: a wrong version costs no transfer, and the request keeps its version
    # although a newer export may load meanwhile.
    service, loaded = catalogue.find(*asked)
    body = await bodies.read(request, limits)
    found = await service.run(read, body, loaded)
    response = responses.Response(found.content, 200, dict(found.headers), found.media_type)
  except Exception as error:  # each has an answer
    response = refusals.response(error)
  seconds = time.perf_counter() - start
  catalogue.measurements.add_request(asked[0], verb, response.status_code, seconds)
  return response
