"""The id of the request that the current task answers.

A client may give an id in the header X-Request-Id. Each answer has the id in the same header. The
log names it beside an error, and the access log names it in each line.
"""

import contextvars
import re
import uuid

HEADER = "X-Request-Id"
_ID = contextvars.ContextVar("request_id", default="-")


def begin(given: str | None) -> str:
  """Sets and returns the id of the current task's request.

  Args:
    given: the client's id, or None. The server replaces an id that could break a line of the log.
  """
  usable = given is not None and re.fullmatch(r"[\w.-]{1,64}", given, re.ASCII)
  identity = given if given is not None and usable else uuid.uuid4().hex[:12]
  _ID.set(identity)
  return identity


def current() -> str:
  """Returns the id; "-" outside of a request."""
  return _ID.get()
