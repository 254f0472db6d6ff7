"""Each error has its status, its headers, and one sentence."""

import json

import pytest

from trainer import errors
from trainer.serving import batching, refusals

exceptions = pytest.importorskip("starlette.exceptions", reason="needs the extra [serve]")


@pytest.mark.parametrize(
  ("error", "status", "headers", "sentence"),
  [
    (refusals.RefusedError("No JSON."), 400, {}, "No JSON."),
    (refusals.NotFoundError("No model."), 404, {}, "No model."),
    (refusals.MethodError("A GET."), 405, {"allow": "POST"}, "A GET."),
    (refusals.SlowError("Slow."), 408, {"connection": "close"}, "Slow."),
    (refusals.TooLargeError("Large."), 413, {}, "Large."),
    (refusals.EncodingError("br."), 415, {"accept-encoding": "gzip"}, "br."),
    (refusals.HungUpError("Gone."), 499, {}, "Gone."),
    (refusals.FullError("Full."), 503, {"connection": "close", "retry-after": "1"}, "Full."),
    (errors.InputError("Bad 'x'."), 400, {}, "Bad 'x'."),
    (batching.BusyError("Busy."), 503, {}, "Busy."),
    (exceptions.HTTPException(404, "Not Found"), 404, {}, "Not Found."),
  ],
)
def test_answers(error, status, headers, sentence):
  answer = refusals.response(error)
  assert (answer.status_code, json.loads(answer.body)) == (status, {"error": sentence})
  own = dict(answer.headers)
  assert own.pop("content-type") == "application/json"
  assert int(own.pop("content-length")) == len(answer.body)
  assert own == headers


def test_a_failure_of_the_server_keeps_its_text_to_the_log(caplog):
  answer = refusals.response(KeyError("a secret"))
  assert answer.status_code == 500
  assert b"secret" not in answer.body
  assert caplog.records[-1].exc_info[1].args == ("a secret",)
