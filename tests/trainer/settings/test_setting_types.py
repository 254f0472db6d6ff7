"""Each setting of Octet's classes and input_fns is checked by its type, where it is given."""

import inspect
import os
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

import numpy as np
import pytest

import trainer
from input_pipelines import (
  augment,
  breast_cancer,
  cifar10,
  diabetes,
  digit_scenes,
  digits,
  fashion_mnist,
  image_folder,
  images,
  mixture,
  random_inputs,
  tabular,
  text_lines,
  tf_flowers,
  tfds_images,
  tfrecord,
)
from trainer import errors, experiment
from trainer.optimization import optimizers
from trainer.settings import setting_types

NAN = float("nan")

# What a setting of a kind refuses; with a "?" behind the kind it may be None, too.
WRONG = {
  "flag": (0, 1, 0.5, "x", "True", None, [], {}, object()),
  "count": (0, -1, 2.5, True, "3", None, [3], {}, NAN, 2**62),
  "natural": (-1, 2.5, True, "3", None, [3], NAN),
  "int": (2.5, True, "3", None, [3], NAN),
  "seconds": (-0.5, False, [3], NAN, "x"),
  "duration": (True, None, [3], {}),
  "number": (True, "3", None, [3], {}),
  "positive": (0, -0.5, True, "3", None, [3], NAN),
  "from zero": (-0.5, False, "3", None, [3], NAN),
  "text": (0, 0.5, True, None, b"x", ["x"], {}),
  "choice": (0, True, None, "no such choice", ["x"]),
  "folder": (0, None, "../x", "/x", "gs://b/x", ["x"]),
  "path": (0, True, None, b"x", ["x"]),
  "function": (0, True, None, "x", ["x"], {}),
  "list": (0, 0.5, True, None, "x", b"x"),
  "counts": (8, True, None, "8", [0], [1, 2.0], (True,), ["8"]),
  "naturals": (8, True, None, "8", [-1], [1, 2.0], ["8"]),
  "texts": (0, True, None, "x", [0], ["x", None]),
  "choices": (0, True, None, "x", [0], ["no such choice"]),
  "dict": (0, True, None, "x", ["x"]),
  "texts by text": (0, True, None, "x", ["x"], {0: "x"}, {"x": 0}),
  "axes by text": (0, True, None, "x", ["x"], {0: (0,)}, {"x": 0}, {"x": (1,)}, {"x": (0, 0)}),
  "functions by text": (0, True, None, "x", ["x"], {0: len}, {"x": "y"}),
  "files": (0, True, None, "x", ["x"], {"../x": "y"}, {"x": 0}),
  "specs": (0, True, None, "x", [0], [trainer.EvalSpec]),
  "patterns": (0, True, None, [0], {}, []),
  "weights": (0, True, None, "x", [1.0], {}, {0: "x"}, {0: -1.0}, {-1: 1.0}, {"a": 1.0}),
  "size": (0.5, True, None, "x", ["x"]),
  "other": (0, True, None, "x", {"a": 1}, ["x"], type),  # of a class of Octet's or TensorFlow's
  "anything": (),
}

EXPORTER = {
  "name": "folder",
  "serving_input_receiver_fn": "function?",
  "assets_extra": "files?",
  "exports_to_keep": "count?",
}
COMMON = {"params": "dict", "training": "flag", "start": "int", "input_context": "other?"}
IMAGES = {
  "split": "text",
  "data_dir": "path?",
  "image_size": "size?",
  "crop": "text",
  "augment": "function?",
  "mix": "function?",
  "standardise": "anything",
  "cache": "path?",
  "shuffle_buffer": "int",
}

# Class or function → setting → kind.
SETTINGS: dict[Any, dict[str, str]] = {
  trainer.RunConfig: {
    "model_dir": "path?",
    "device": "text",
    "tpu": "text",
    "precision": "choice",
    "xla": "flag",
    "compiled": "text",
    "tf_random_seed": "int",
    "save_checkpoints_steps": "natural?",
    "save_checkpoints_secs": "seconds?",
    "keep_checkpoint_max": "natural?",
    "retention": "other?",
    "on_checkpoint_failure": "choice",
    "on_non_finite": "choice",
    "stage_timeout_secs": "seconds?",
    "evaluate_ema": "flag",
    "save_summary_steps": "count",
    "log_step_count_steps": "count",
    "show_progress": "flag?",
    "train_steps": "size?",
    "epoch_examples": "count?",
    "class_weight": "weights?",
    "weight_column": "text",
    "cpu_kernels": "flag?",
    "static_shapes": "flag",
    "force": "flag",
    "tpu_config": "other",
    "gpu_config": "other",
    "cluster": "text",
    "train_input_service": "text",
    "cluster_timeout_secs": "seconds",
  },
  trainer.TPUConfig: {
    "iterations_per_loop": "size?",
    "num_shards": "count?",
    "per_host_input_for_training": "choice but flags",
    "eval_training_input_configuration": "choice",
    "host_call_every_n_steps": "count",
    "steps_per_program": "count?",
    "stacked_input_bytes": "count",
  },
  trainer.GPUConfig: {
    "memory_growth": "flag",
    "tensor_float_32": "flag",
    "deterministic": "flag",
    "all_reduce": "choice",
  },
  trainer.Retention: {
    "newest": "natural?",
    "best": "natural",
    "metric": "text",
    "mode": "choice",
    "evaluation": "text",
    "every_n_steps": "natural?",
    "every_n_hours": "from zero?",
  },
  trainer.EvalSpec: {
    "input_fn": "function",
    "steps": "count?",
    "name": "folder?",
    "hooks": "list",
    "throttle_secs": "from zero",
    "exporters": "list",
    "report": "other?",
  },
  trainer.TrainSpec: {
    "input_fn": "function",
    "max_steps": "count?",
    "hooks": "list",
    "saving_listeners": "list",
  },
  trainer.ExportOptions: {
    "class_names": "texts?",
    "decoders": "functions by text?",
    "from_examples": "flag",
    "warm_up_batches": "counts",
    "runtimes": "texts",
    "verify": "flag",
    "card": "texts by text?",
  },
  trainer.WarmStartSettings: {
    "ckpt_to_initialize_from": "path",
    "vars_to_warm_start": "patterns",
    "var_name_to_prev_var_name": "texts by text?",
    "var_name_to_axes": "axes by text?",
  },
  trainer.LatestExporter: EXPORTER,
  trainer.FinalExporter: EXPORTER,
  trainer.BestExporter: {**EXPORTER, "metric": "text", "mode": "choice"},
  trainer.EarlyStopping: {
    "metric": "text",
    "mode": "choice",
    "patience": "count?",
    "patience_steps": "count?",
    "min_delta": "from zero",
    "evaluation": "text",
    "clock": "function?",
  },
  trainer.Histograms: {"steps": "count"},
  trainer.MLflowHook: {
    "tracking_uri": "text",
    "experiment": "text",
    "run_name": "text",
    "tags": "texts by text?",
    "artifacts": "choices",
    "seconds": "positive",
  },
  trainer.WandbHook: {
    "project": "text",
    "entity": "text",
    "run_name": "text",
    "mode": "choice",
    "tags": "texts",
    "artifacts": "choices",
    "seconds": "positive",
  },
  trainer.Periodic: {
    "what": "function",
    "steps": "count?",
    "seconds": "positive?",
    "at": "naturals",
    "at_end": "flag",
    "clock": "function?",
  },
  trainer.Profiler: {"first": "count", "last": "count", "directory": "path?"},
  optimizers.minimize: {
    "optimizer": "anything",
    "loss": "anything",
    "global_step": "anything",
    "var_list": "anything",
    "clip_norm": "positive?",
    "accumulate_steps": "count",
    "ema_decay": "positive?",
    "groups": "specs",
    "lookahead": "other?",
  },
  trainer.Lookahead: {"every": "count", "decay": "positive", "power": "from zero"},
  trainer.VariableGroup: {
    "names": "text",
    "learning_rate_factor": "positive",
    "weight_decay": "flag",
    "until": "duration?",
    "trainable": "flag",
  },
  experiment.Experiment: {
    "model_fn": "function",
    "train_input_fn": "function?",
    "train_input_service": "text",
    "eval_input_fn": "function?",
    "predict_input_fn": "function?",
    "params": "dict?",
    "train_steps": "size?",
    "eval_steps": "count?",
    "eval_throttle_secs": "from zero",
    "eval_timeout_secs": "from zero",
    "eval_specs": "specs",
    "evaluation_report": "other?",
    "exporters": "list?",
    **{
      f"{kind}_{size}": "count?"
      for kind in ("train", "eval", "predict")
      for size in ("batch_size", "per_core_batch_size")
    },
    "train_hooks": "list",
    "saving_listeners": "list",
    "class_names": "texts?",
    "contact_sheet_images": "natural",
    "contact_sheet": "choice",
    "warm_start_from": "anything",
    "export_options": "other?",
  },
  breast_cancer.input_fn: {**COMMON, "split": "text"},
  cifar10.input_fn: {**COMMON, **IMAGES},
  diabetes.input_fn: {**COMMON, "split": "text"},
  diabetes.target_statistics: {},
  digit_scenes.input_fn: {**COMMON, "split": "text", "labels": "text"},
  digits.input_fn: {**COMMON, "split": "text"},
  fashion_mnist.input_fn: {**COMMON, "split": "text", "data_dir": "path?", "idx_dir": "path?"},
  image_folder.input_fn: {
    **COMMON,
    **IMAGES,
    "directory": "path",
    "validation_share": "number",
    "channels": "int",
  },
  image_folder.class_names: {"directory": "path"},
  images.random_window: {
    "shape": "other",
    "ratio": "number",
    "numbers": "other",
    "min_area": "number",
    "max_stretch": "number",
  },
  augment.standard: {
    "images": "other",
    "draw": "other",
    "flip": "flag",
    "shift": "int",
    "randaugment": "int",
    "magnitude": "number",
    "cutout": "int",
    **dict.fromkeys(("brightness", "contrast", "saturation"), "number"),
  },
  augment.mix: {
    **dict.fromkeys(("images", "labels", "others", "their_labels", "draw"), "other"),
    "classes": "int?",
    **dict.fromkeys(("mixup", "cutmix", "share"), "number"),
  },
  mixture.input_fn: {**COMMON, "parts": "list", "weights": "list"},
  random_inputs.input_fn: {
    **COMMON,
    "features": "dict",
    "labels": "anything",
    **dict.fromkeys(("classes", "vocabulary_size", "batches"), "int"),
    "examples": "int?",
  },
  tabular.input_fn: {
    **COMMON,
    "path": "path",
    "training_path": "path",
    "schema": "texts by text",
    "classes": "texts?",
  },
  tabular.target_statistics: {"training_path": "path", "schema": "texts by text"},
  tabular.vocabulary_sizes: {"training_path": "path", "schema": "texts by text"},
  text_lines.input_fn: {
    **COMMON,
    "path": "path",
    "vocabulary_file": "path",
    "length": "int",
    "text_key": "text",
    "label_key": "text",
    "classes": "texts?",
  },
  text_lines.vocabulary_size: {"path": "path"},
  tf_flowers.input_fn: {**COMMON, **IMAGES, "image_size": "size"},
  tfds_images.input_fn: {**COMMON, **IMAGES, "name": "text", "download": "flag"},
  tfds_images.class_names: {"name": "text", "data_dir": "path?", "download": "flag"},
  tfrecord.input_fn: {
    **COMMON,
    **IMAGES,
    "path": "path",
    "features": "dict?",
    "label_key": "text?",
    **dict.fromkeys(("verify", "on_damage", "compression"), "text"),
  },
}


# What else has to be given to come to the check.
NEEDED = {experiment.Experiment: {"model_fn": len}, trainer.VariableGroup: {"names": "bias"}}


def name_of(made):
  if made is experiment.Experiment:
    return "run"
  if isinstance(made, type) or made is optimizers.minimize:
    return made.__name__
  return f"{made.__module__.rpartition('.')[2]}.{made.__name__}"


def wrong_values(kind):
  if kind == "choice but flags":
    return [value for value in WRONG["choice"] if value is not True]
  values = WRONG[kind.removesuffix("?")]
  return [value for value in values if value is not None or not kind.endswith("?")]


@pytest.mark.parametrize("made", SETTINGS, ids=name_of)
def test_each_setting_of_each_class_is_checked_by_its_type(made):
  names = inspect.signature(made).parameters
  table = {name: kind for name, kind in SETTINGS[made].items() if name in names}
  assert set(table) == set(names)  # a new setting needs a line above
  for name, kind in table.items():
    for value in wrong_values(kind):
      with pytest.raises(errors.SettingError) as caught:
        made(**{**NEEDED.get(made, {}), name: value})
      said = str(caught.value)
      assert said.startswith(f"{name_of(made)}.{name} is ") or (
        kind.startswith(("size", "seconds")) and f"{name} is " in said
      ), (name, value, said)


def test_each_default_fits():
  for made in SETTINGS:
    annotations = inspect.get_annotations(
      inspect.unwrap(made.__init__ if isinstance(made, type) else made)
    )
    for name, parameter in inspect.signature(made).parameters.items():
      if parameter.default is not parameter.empty and not repr(parameter.default).startswith("<"):
        setting_types.check(parameter.default, annotations[name], name)


def test_every_input_fn_is_here():
  folder = pathlib.Path(digits.__file__).parent
  text = "".join(path.read_text() for path in folder.glob("*.py"))
  here = [made for made in SETTINGS if made.__module__.startswith("input_pipelines")]
  assert text.count("@trainer.check_settings\ndef ") == len(here)
  assert text.count("@gin.configurable\n") == len(here)


class Shape:
  pass


@pytest.mark.parametrize(
  ("annotation", "value", "words"),
  [
    (bool, True, "True or False"),
    (int, np.int64(3), "an int"),
    (float, 3, "a number"),
    (float, np.float32(0.5), "a number"),
    (str, "x", "a string"),
    (str | None, None, "a string, or None"),
    (Literal["a", 2], 2, "'a' or 2"),
    (str | os.PathLike, pathlib.Path("x"), "a string, or a path"),
    (Callable[[int], int], len, "a function"),
    (Mapping[str, int], {"a": 1}, "a dict (a string: an int)"),
    (dict, {}, "a dict"),
    (Sequence[int], (1, 2), "a list (each: an int)"),
    (Sequence, [object()], "a list"),
    (tuple[str, int], ("a", 1), "a list (each: a string, an int)"),
    (tuple[int, ...], (1, 2, 3), "a list (each: an int)"),
    (Shape, Shape(), "a Shape"),
    (Annotated[int, "(--seed)"], 3, "an int (--seed)"),
    (setting_types.Count, 1, "an int greater than 0"),
  ],
)
def test_what_an_annotation_allows_and_how_a_message_tells_it(annotation, value, words):
  setting_types.check(value, annotation, "x")
  setting_types.check(value, Any, "x")
  with pytest.raises(errors.SettingError) as caught:
    setting_types.check(wrong := [b"wrong"], annotation if annotation != Sequence else int, "f.x")
  if annotation != Sequence:
    assert str(caught.value) == f"f.x is {wrong!r}; expected {words}."


def test_a_class_that_was_not_called_is_told():
  with pytest.raises(errors.SettingError, match=r"expected a Shape \(in gin, .*: @Shape\(\)\)\.$"):
    setting_types.check(Shape, Shape, "x")


def test_a_long_value_is_cut():
  with pytest.raises(errors.SettingError) as caught:
    setting_types.check("x" * 10_000, int, "x")
  assert len(str(caught.value)) < 300


def test_a_program_checks_its_own_functions():
  @trainer.check_settings
  def input_fn(params: dict, training: bool = False, *rest: int, **others: str) -> tuple:
    return params, training, rest, others

  assert input_fn({}, True, "a", b=3) == ({}, True, ("a",), {"b": 3})
  with pytest.raises(errors.SettingError, match=r"test_setting_types\.input_fn\.training is 'x'"):
    input_fn({}, training="x")
  with pytest.raises(TypeError, match="missing 1 required positional argument: 'params'"):
    input_fn()


def test_too_many_arguments_are_pythons_affair():
  with pytest.raises(TypeError, match="positional arguments? but"):
    trainer.Histograms(1, 2, 3)
