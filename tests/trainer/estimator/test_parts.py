"""Parts of an Estimator: settings that cannot work on its device."""

import types

import pytest

from trainer import errors
from trainer.estimator import parts
from trainer.pjrt import compiled_forms


def check(folder, runs_by_pjrt):
  class Device(types.SimpleNamespace):
    def __str__(self):
      return "cpu, 1 replica"

  parts._check_compiled(folder, Device(runs_by_pjrt=runs_by_pjrt))


@pytest.mark.parametrize("folder", ["", compiled_forms.AUTO])
@pytest.mark.parametrize("runs_by_pjrt", [True, False])
def test_compiled_programs_are_optional_everywhere(folder, runs_by_pjrt):
  check(folder, runs_by_pjrt)


def test_a_folder_may_be_new_or_exist(tmp_path):
  check(str(tmp_path), True)
  check(str(tmp_path / "new"), True)
  assert list(tmp_path.iterdir()) == []


def test_a_device_of_tensorflow_keeps_no_programs(tmp_path):
  with pytest.raises(errors.SettingError, match="--device is cpu, 1 replica: take --compiled away"):
    check(str(tmp_path), False)


def test_a_file_or_an_address_is_no_folder(tmp_path):
  (tmp_path / "file").write_text("")
  with pytest.raises(errors.SettingError, match="is a file; expected a folder"):
    check(str(tmp_path / "file"), True)
  with pytest.raises(errors.SettingError, match="--compiled=gs://bucket/x is a URL"):
    check("gs://bucket/x", True)


@pytest.mark.parametrize(("kind", "use_tpu"), [("tpu", True), ("cpu", False), ("xla", False)])
def test_params_know_the_device_and_stay_the_users(kind, use_tpu):
  params = {"rate": 0.1, "use_tpu": "mine"}
  given = parts._params_on(types.SimpleNamespace(kind=kind), params)
  assert given == {"rate": 0.1, "use_tpu": use_tpu}
  assert params == {"rate": 0.1, "use_tpu": "mine"}
