"""The process that checks SavedModels: its arrays, and the imports that it refuses."""

import pytest

from trainer.outputs import check_saved_model


def test_the_project_is_refused():
  with pytest.raises(ImportError, match="cannot import trainer.export"):
    check_saved_model.Refusal().find_spec("trainer.export")
  assert check_saved_model.Refusal().find_spec("numpy") is None
