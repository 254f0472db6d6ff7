"""The flags of `trainer.predict`, and its exit status."""

import pytest

from tests.trainer import mains
from trainer.serving import predict


@pytest.mark.parametrize("status", [0, 1])
def test_flags_arrive_and_the_status_is_that_of_the_prediction(monkeypatch, status):
  calls = []

  def fake(*args, **settings):
    calls.append((args, settings))
    return status

  monkeypatch.setattr(predict, "predict", fake)
  arguments = ["--export=e", "--input=a,b.png", "--input=-", "--output=o.csv", "--batch_size=7"]
  with mains.loaded(
    "trainer.serving.predict_main", *arguments, "--engine=onnx", "--keep_going"
  ) as main:
    assert main.main(["predict"]) == status
  [(args, settings)] = calls
  assert args == ("e", ["a,b.png", "-"], "o.csv")
  assert settings == {"batch_size": 7, "engine": "onnx", "precision": "float32", "keep_going": True}
