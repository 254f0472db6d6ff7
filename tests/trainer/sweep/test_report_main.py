"""`trainer.sweep_report`: mistakes, and the files that it writes."""

import pytest

from tests.trainer import mains
from trainer import errors

NAME = "trainer.sweep.report_main"


def test_a_missing_flag_is_told_with_an_example():
  with mains.loaded(NAME) as main, pytest.raises(errors.SettingError, match="No --sweep_dir. Try"):
    main.main(["sweep_report"])


def test_a_folder_without_a_sweep_stays_as_it_is(tmp_path):
  with mains.loaded(NAME, f"--sweep_dir={tmp_path / 'none'}") as main:
    with pytest.raises(errors.SettingError, match="none"):
      main.main(["sweep_report"])
  assert list(tmp_path.iterdir()) == []
