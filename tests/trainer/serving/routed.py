"""An app with the paths of one protocol, around a catalogue that notes what it is asked for."""

import types

from trainer.serving import bodies, refusals


class Routes:
  """The app of a module of paths.

  Attributes:
    app: of FastAPI.
    asked: (name, version) of each question for a model.
    counted: (name, verb, status) of each measured request.
    readers: the readers of the requests' bodies.
    error: what the model raises, or None.
  """

  def __init__(self, module):
    import fastapi
    from starlette import exceptions

    self.asked, self.counted, self.readers = [], [], []
    self.error = None
    self.measurements = types.SimpleNamespace(
      add_request=lambda *request: self.counted.append(request[:3])
    )
    self.app = fastapi.FastAPI()
    for kind in (refusals.RefusedError, exceptions.HTTPException):
      self.app.add_exception_handler(kind, self._refuse)
    module.add(self.app, self, bodies.Limits())

  async def _refuse(self, request, error):
    return refusals.response(error)

  def require(self, name):
    if name != "pets":
      raise refusals.NotFoundError(f"There is no model {name!r} here.")

  def find(self, name, version=None):
    self.require(name)
    self.asked.append((name, version))
    return self, "loaded"

  async def run(self, read, body, loaded):
    self.readers.append(read)
    name = getattr(read, "func", read).__name__
    if self.error:
      raise self.error
    return f'{{"read": "{name}", "body": "{body.decode()}"}}'.encode()
