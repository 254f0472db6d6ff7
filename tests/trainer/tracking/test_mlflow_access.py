"""MLflow's servers that refuse: one warning with what to set, and the training ends well."""

import http.server
import logging
import threading
import types

import pytest

import trainer
from tests.trainer import programs
from trainer import errors
from trainer.tracking import main, record

mlflow = pytest.importorskip("mlflow")

TOKEN, USER = "MLFLOW_TRACKING_TOKEN", "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"


@pytest.fixture
def refusing():
  """Yields a function that starts a server which answers all with a status; returns its address.

  "seen" has the Authorization of each request.
  """
  servers = []

  def start(status, body=b""):
    class Handler(http.server.BaseHTTPRequestHandler):
      def do_GET(self):
        server.seen.append(self.headers.get("Authorization"))
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

      do_POST = do_GET

      def log_message(self, *arguments):
        pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.seen = []
    server.uri = f"http://127.0.0.1:{server.server_port}"
    servers.append(server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server

  yield start
  for server in servers:
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
  ("status", "body"),
  [
    (401, b"You are not authenticated."),
    (403, b'{"error_code": "PERMISSION_DENIED", "message": "Permission denied"}'),
  ],
)
def test_a_training_without_access_says_once_what_to_set(
  tmp_path, caplog, monkeypatch, refusing, status, body
):
  monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "a wrong one")
  server = refusing(status, body)
  following = trainer.MLflowHook(tracking_uri=server.uri, seconds=0.05)
  estimator = programs.estimator(tmp_path, save_checkpoints_steps=10, save_summary_steps=10)
  with caplog.at_level(logging.INFO):
    trainer.train_and_evaluate(
      estimator,
      trainer.TrainSpec(programs.train_input, 20, [following]),
      trainer.EvalSpec(programs.examples(16)),
    )
  assert estimator.latest_step() == 20
  said = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
  [warning] = [each for each in said if "MLflow" in each]
  assert str(status) in warning or "Permission denied" in warning
  assert f"python -m trainer.tracking {tmp_path}" in warning
  assert set(server.seen) == {"Bearer a wrong one"}


def test_later_too(tmp_path, monkeypatch, refusing):
  record.Record(record.path(str(tmp_path), "mlflow"), project="tests").write()
  monkeypatch.setattr(main, "_TRACKING_URI", types.SimpleNamespace(value=refusing(401).uri))
  with pytest.raises(errors.OutputError, match=f"Cannot send .*401.*{USER}, or {TOKEN}, give"):
    main.main(["", str(tmp_path)])


def test_a_token_that_is_set_afterwards_is_used(tmp_path, monkeypatch, refusing):
  """As in a notebook."""
  server = refusing(401)
  following = trainer.MLflowHook(tracking_uri=server.uri, experiment="tests")
  for token in (None, "the token"):
    if token:
      monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", token)
    with pytest.raises(mlflow.MlflowException):
      following.open(str(tmp_path), [])
  assert server.seen[0] is None
  assert server.seen[-1] == "Bearer the token"
