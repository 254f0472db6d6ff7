"""The settings of GPUs: their defaults, and values that cannot work."""

import pytest

import trainer
from trainer import errors


def test_a_gpu_is_shared_and_fast_by_default():
  made = trainer.RunConfig().gpu_config
  assert (made.memory_growth, made.tensor_float_32, made.deterministic) == (True, True, False)


@pytest.mark.parametrize(
  ("settings", "message"),
  [
    ({"memory_growth": 1}, "GPUConfig.memory_growth is 1; expected True or False"),
    ({"tensor_float_32": "yes"}, "GPUConfig.tensor_float_32 is 'yes'; expected True or False"),
    ({"tf32": True}, "GPUConfig has no setting 'tf32'"),
    ({"memory_growth": "False"}, "memory_growth.*'False'"),
    ({"deterministic": None}, "deterministic.*None"),
  ],
)
def test_an_unknown_value_is_named_with_the_known_ones(settings, message):
  with pytest.raises(errors.SettingError, match=message):
    trainer.GPUConfig(**settings)
