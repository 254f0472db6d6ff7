"""Warnings that come once in a process."""

from trainer.cli import notices


def test_each_text_comes_once(caplog, monkeypatch):
  monkeypatch.setattr(notices, "_given", set())
  for text in ("100 % of %s", "other", "100 % of %s"):
    notices.warn_once(text)
  assert [each.getMessage() for each in caplog.records] == ["100 % of %s", "other"]
  assert {each.levelname for each in caplog.records} == {"WARNING"}
