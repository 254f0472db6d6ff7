import os

import pytest

from trainer.internals import libtpu_environment


@pytest.mark.parametrize(
  "has_chips, given, expected", [(False, None, "1"), (False, "0", "0"), (True, None, None)]
)
def test_metadata_are_asked_for_on_a_machine_with_chips_alone(
  monkeypatch, tmp_path, has_chips, given, expected
):
  monkeypatch.setattr(libtpu_environment, "_CHIPS", (f"{tmp_path}/accel*",))
  monkeypatch.delenv("TPU_SKIP_MDS_QUERY", raising=False)
  if given:
    monkeypatch.setenv("TPU_SKIP_MDS_QUERY", given)
  if has_chips:
    (tmp_path / "accel0").touch()
  libtpu_environment.skip_metadata_query()
  assert os.environ.get("TPU_SKIP_MDS_QUERY") == expected
  os.environ.pop("TPU_SKIP_MDS_QUERY", None)
