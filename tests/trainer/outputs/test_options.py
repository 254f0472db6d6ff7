"""Settings of an export, and what is said of those that cannot work."""

import pytest

import trainer
from trainer import errors


@pytest.mark.parametrize(
  ("options", "message"),
  [
    ({"decoders": ["image"]}, "ExportOptions.decoders is .*; expected a dict"),
    ({"decoders": {"image": "decode"}}, "ExportOptions.decoders is .*; expected a dict"),
    ({"warm_up_batches": (0,)}, r"ExportOptions.warm_up_batches is \(0,\); expected a list"),
    ({"warm_up_batches": (1, 2.0)}, "ExportOptions.warm_up_batches"),
    ({"warm_up_batches": (True,)}, "ExportOptions.warm_up_batches"),
    ({"warm_up_batches": 8}, "ExportOptions.warm_up_batches is 8; expected a list"),
    ({"warm_up_batches": None}, r"ExportOptions.warm_up_batches is None; expected a list"),
    ({"class_names": "ab"}, "ExportOptions.class_names is 'ab'"),
    ({"class_names": []}, r"ExportOptions.class_names is \[\]"),
    ({"class_names": [0, 1]}, r"ExportOptions.class_names is \[0, 1\]; expected a list of strings"),
    ({"runtimes": "onnx"}, "ExportOptions.runtimes is 'onnx'; expected a list"),
  ],
)
def test_options_that_cannot_work(options, message):
  with pytest.raises(errors.SettingError, match=message):
    trainer.ExportOptions(**options)


def test_an_export_can_do_without():
  options = trainer.ExportOptions(decoders={}, warm_up_batches=(), runtimes=(), verify=False)
  assert (options.decoders, options.warm_up_batches) == ({}, ())


def test_lists_of_a_gin_file_are_taken():
  options = trainer.ExportOptions(class_names=["ant", "bee"], warm_up_batches=[1, 32])
  assert (options.class_names, options.warm_up_batches) == (["ant", "bee"], [1, 32])
