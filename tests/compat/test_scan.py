"""python -m trainer.compat: the imports that change, the names that are used, what cannot work."""

import io
import json
import operator
import pathlib
import subprocess
import sys
import textwrap

import pytest
from absl import app, flags
from absl.testing import flagsaver

from tests import warm
from trainer.cli import command as cli_command
from trainer.compat import __main__ as command
from trainer.compat.scan import apis, imports, refused, report, source, verdicts


def changed(text, api="v1"):
  """The text of a program with its imports changed."""
  tree = source.ast.parse(textwrap.dedent(text))
  with_gin = source._uses_old_gin(tree)
  found = [one for node in source.ast.walk(tree) for one in source._imports(node, with_gin)]
  return imports.changed(source.Source(None, textwrap.dedent(text), found, []), api)


def rows_of(*paths):
  """What is told of the names of files."""
  return report.rows(apis.programs([source.read(path) for path in paths]))


def test_imports_change_and_nothing_else():
  for api in ("v1", "v2"):
    tf2 = "from tensorflow.python import tf2\n"
    assert changed(tf2, api) == f"from trainer.compat.{api} import tf2\n"
  assert changed("import tensorflow as tf  # noqa\nx = 1\n") == (
    "import trainer.compat.v1 as tf  # noqa\nx = 1\n"
  )
  assert changed("import tensorflow.compat.v1 as tf") == "import trainer.compat.v1 as tf\n"
  assert changed("from tensorflow.contrib import tpu as contrib_tpu\n") == (
    "from trainer.compat.v1.contrib import tpu as contrib_tpu\n"
  )
  assert changed("from tensorflow.compat.v1 import estimator as tf_estimator\n") == (
    "from trainer.compat.v1 import estimator as tf_estimator\n"
  )
  assert changed("import tensorflow.contrib.slim as slim\n") == (
    "from trainer.compat.v1.contrib import slim\n"
  )
  assert changed("import tf_slim as slim\n") == "from trainer.compat.v1.contrib import slim\n"
  assert changed("import tf_slim\n") == "from trainer.compat.v1.contrib import slim as tf_slim\n"
  assert changed("import tensorflow_hub\n") == (
    "from trainer.compat.v1 import hub as tensorflow_hub\n"
  )
  assert changed("from tensorflow.contrib.tpu import RunConfig, TPUConfig\n") == (
    "from trainer.compat.v1.contrib.tpu import RunConfig\n"
    "from trainer.compat.v1.contrib.tpu import TPUConfig\n"
  )
  assert changed("def f():\n  import tensorflow_hub as hub\n") == (
    "def f():\n  from trainer.compat.v1 import hub\n"
  )
  assert changed("import gin.tf\n") == "from trainer.compat.v1 import gin\n"
  assert changed("import gin.tf.external_configurables\n") == (
    "from trainer.compat.v1 import external_configurables, gin\n"
  )
  assert changed("import gin\n@gin.configurable(blacklist=['x'])\ndef f(x): pass\n").startswith(
    "from trainer.compat.v1 import gin\n"
  )


def test_private_names_of_keras_become_public_ones():
  private = "from tensorflow.python.keras"
  assert changed(f"{private} import models, layers") == (
    "from trainer.compat.v1.keras import models\nfrom trainer.compat.v1.keras import layers\n"
  )
  assert changed(f"{private}.layers.core import Dense", "v2") == (
    "from trainer.compat.v2.keras.layers import Dense\n"
  )
  for absent in ("utils import tf_utils", "engine import base_layer", "layers import core"):
    assert changed(f"{private}.{absent}") == f"{private}.{absent}"


def test_imports_that_stay():
  for text in (
    "import tensorflow_datasets as tfds\n",
    "from keras import layers\n",
    "from tensorflow.python.ops import math_ops\n",
    "from tensorflow.compiler.tf2xla.python import xla\n",
    "import numpy as np\n",
    "from . import tensorflow\n",
    "import gin\n",
  ):
    assert changed(text) == text


def write(tmp_path, text):
  path = tmp_path / "program.py"
  path.write_text(textwrap.dedent(text))
  return path


def test_names_are_found_with_their_places(tmp_path):
  path = write(
    tmp_path,
    """
    import tensorflow.compat.v1 as tf
    from tensorflow.contrib import layers as contrib_layers

    def f(x):
      y = tf.layers.dense(x, 3).shape
      return contrib_layers.nonsense(tf.compat.v1.reduce_sum(y))
    """,
  )
  uses = {(use.name, use.line) for use in source.read(path).uses}
  assert uses == {("layers.dense", 6), ("contrib.layers.nonsense", 7), ("reduce_sum", 7)}


def test_verdicts_are_those_of_the_package():
  assert verdicts.of("reduce_sum").status == verdicts.WORKS
  assert verdicts.of("layers.dense").status == verdicts.SHIM
  assert verdicts.of("estimator.ModeKeys.TRAIN").status == verdicts.SHIM
  assert verdicts.of("train.AdamOptimizer").status == verdicts.WORKS
  absent = verdicts.of("contrib.gan.gan_model")
  assert absent.status == verdicts.ABSENT
  assert "package of its own" in absent.advice
  assert verdicts.of("no_such_name").status == verdicts.ABSENT


def test_what_cannot_work_comes_first(tmp_path):
  path = write(tmp_path, "import tensorflow as tf\ntf.reduce_sum\ntf.contrib.gan.gan_model\n")
  rows = rows_of(path)
  assert [row["status"] for row in rows] == [verdicts.ABSENT, verdicts.WORKS]
  assert rows[0]["places"] == [f"{path}:3"]
  assert "1 that cannot work" in report.table(rows)


def test_private_names_of_tensorflow_estimator_are_reported(tmp_path):
  path = write(
    tmp_path,
    """
    import tensorflow.compat.v2 as tf
    from tensorflow_estimator.python.estimator.head import regression_head, sequential_head
    from tensorflow_estimator.python.estimator.tpu import tpu_estimator

    regression_head.RegressionHead()
    tf.estimator.Estimator(tf.reduce_sum)
    tpu_estimator.BatchConfig
    """,
  )
  rows = {row["name"]: row for row in rows_of(path)}
  head = rows["estimator.head.sequential_head"]
  assert (head["status"], head["places"]) == (verdicts.ABSENT, [f"{path}:3"])
  assert "inside of tensorflow_estimator" in head["advice"]
  assert rows["estimator.head.regression_head.RegressionHead"]["status"] == verdicts.SHIM
  batch = rows["estimator.tpu.BatchConfig"]
  assert (batch["status"], batch["places"]) == (verdicts.ABSENT, [f"{path}:8"])
  assert "inside of tensorflow_estimator" in batch["advice"]
  estimator = rows["estimator.Estimator"]
  assert (estimator["status"], estimator["places"]) == (verdicts.SHIM, [f"{path}:7"])
  assert (rows["reduce_sum"]["status"], rows["reduce_sum"]["api"]) == (verdicts.WORKS, "v2")


def test_modules_inside_of_contrib_are_contribs(tmp_path):
  path = write(
    tmp_path,
    """
    from tensorflow.contrib.tpu.python.tpu import tpu_config
    from tensorflow.contrib.training.python.training import evaluation, hparam
    from tensorflow.python.estimator import estimator

    tpu_config.InputPipelineConfig.PER_HOST_V2
    tpu_config.no_such_name
    evaluation.checkpoints_iterator, hparam.HParams
    estimator._load_global_step_from_checkpoint_dir
    """,
  )
  rows = {row["name"]: row["status"] for row in rows_of(path)}
  assert rows == {
    "contrib.tpu.python.tpu.tpu_config.InputPipelineConfig.PER_HOST_V2": verdicts.SHIM,
    "contrib.tpu.python.tpu.tpu_config.no_such_name": verdicts.ABSENT,
    "contrib.training.python.training.evaluation.checkpoints_iterator": verdicts.WORKS,
    "contrib.training.python.training.hparam.HParams": verdicts.SHIM,
    "estimator.estimator._load_global_step_from_checkpoint_dir": verdicts.SHIM,
  }


def test_an_import_from_a_private_module_of_contrib_works(tmp_path):
  text = "from tensorflow.contrib.tpu.python.tpu.tpu_function import get_tpu_context\n"
  (row,) = rows_of(write(tmp_path, f"{text}get_tpu_context\n"))
  assert row["status"] == verdicts.SHIM
  found = {}
  exec(changed(text), found)  # as the tool says, it is there
  assert found["get_tpu_context"]().number_of_shards == 1


def test_the_command_writes_and_tells_by_its_exit_code(tmp_path):
  path = write(tmp_path, "import tensorflow as tf\ntf.layers.dense\ntf.contrib.gan.x\n")
  done = warm.run("-m", "trainer.compat", "--json", "--write", tmp_path)
  assert done.returncode == 1, done.stderr
  told = json.loads(done.stdout)
  assert [row["name"] for row in told["names"]] == ["contrib.gan.x", "layers.dense"]
  assert told["diffs"][str(path)].endswith(
    "+import trainer.compat.v1 as tf\n tf.layers.dense\n tf.contrib.gan.x\n"
  )
  path.write_text(path.read_text().replace("tf.contrib.gan.x\n", ""))
  if not flags.FLAGS.is_parsed():
    flags.FLAGS.mark_as_parsed()
  with pytest.raises(SystemExit) as ended:
    command.main(["compat", str(path)])
  assert not ended.value.code
  assert path.read_text() == "import trainer.compat.v1 as tf\ntf.layers.dense\n"


def test_what_is_written_does_not_wait_for_who_reads_the_table(tmp_path, monkeypatch):
  """As of `python -m trainer.compat --write PATH | head`."""

  class Closed(io.StringIO):
    def write(self, text):
      raise BrokenPipeError

    def fileno(self):
      return unread.fileno()

  path = write(tmp_path, "import tensorflow as tf\ntf.layers.dense\n")
  if not flags.FLAGS.is_parsed():
    flags.FLAGS.mark_as_parsed()
  with open(tmp_path / "unread", "w") as unread, flagsaver.flagsaver(write=True):
    monkeypatch.setattr(sys, "stdout", Closed())
    with pytest.raises(SystemExit) as ended:
      command.main(["compat", str(path)])
  assert not ended.value.code
  assert path.read_text() == "import trainer.compat.v1 as tf\ntf.layers.dense\n"


def test_private_modules_of_tf_estimator_get_octets_imports():
  assert changed("from tensorflow.python.estimator.model_fn import ModeKeys as Modes\n") == (
    "from trainer.compat.v1.estimator import ModeKeys as Modes\n"
  )
  assert changed("from tensorflow_estimator.python.estimator.inputs import numpy_io\n") == (
    "from trainer.compat.v1.estimator import inputs as numpy_io\n"
  )
  assert changed("from tensorflow.python.estimator import model_fn as model_fn_lib\n") == (
    "from trainer.compat.v1 import estimator as model_fn_lib\n"
  )
  for package in ("tensorflow_estimator.python.estimator.tpu", "tensorflow.python.tpu"):
    assert changed(f"from {package} import tpu_estimator, tpu_config\n") == (
      "from trainer.compat.v1.estimator import tpu as tpu_estimator\n"
      "from trainer.compat.v1.estimator import tpu as tpu_config\n"
    )
    assert changed(f"from {package}.tpu_config import TPUConfig\n") == (
      "from trainer.compat.v1.estimator.tpu import TPUConfig\n"
    )


@pytest.mark.parametrize(
  "name",
  [
    *("head._Head", "metric_keys.MetricKeys.AUC", "optimizers.get_optimizer_instance"),
    "prediction_keys.PredictionKeys.LOGITS",
  ],
)
def test_names_inside_of_canned_that_wrappers_use_are_there(name):
  assert verdicts.of(f"estimator.canned.{name}").status == verdicts.SHIM


@pytest.mark.parametrize(
  ("file", "text", "how"),
  [
    ("trainer.py", "import tensorflow as tf\n", "FILE"),
    ("trainer/task.py", "from trainer import model\n", "-m trainer.MODULE"),
    ("package/trainer.py", "if __name__ == '__main__': main()\n", "FILE"),
    ("package/trainer.py", "import tensorflow as tf\n", None),
    ("package/trainer/task.py", "import tensorflow as tf\n", None),
    ("train.py", "import trainer.compat.v1 as tf\n", None),
  ],
)
def test_a_programs_own_trainer_is_said_with_the_way_to_run_it(tmp_path, file, text, how):
  (tmp_path / "package").mkdir()
  (tmp_path / "package" / "__init__.py").touch()
  (tmp_path / file).parent.mkdir(exist_ok=True)
  (tmp_path / file).write_text(text)
  (said, *more) = [*report.own_trainers(apis.programs([source.read(tmp_path / file)])), None]
  assert more == ([None] if how else [])
  if how:
    assert f"`python -m octet_trainer.run {how}`" in said


def test_a_file_beside_a_programs_own_trainer_is_told_of_it(tmp_path):
  (tmp_path / "trainer.py").touch()
  (tmp_path / "main.py").write_text("import tensorflow as tf\n")
  (said,) = report.own_trainers(apis.programs([source.read(tmp_path / "main.py")]))
  assert str(tmp_path / "trainer.py") in said


# ------------------------------------------------------------------ names of TensorFlow 1 or 2


def programs(folder, **texts):
  """The programs of files that are written into a folder, by the name of their first file."""
  for name, text in texts.items():
    (folder / f"{name}.py").write_text(textwrap.dedent(text))
  found = apis.programs([source.read(path) for path in source.files([str(folder)])])
  return {program.sources[0].path.stem: program for program in found}


@pytest.mark.parametrize(
  ("text", "api"),
  [
    ("tf.placeholder(tf.float32)", "v1"),
    ("tf.contrib.gan.x", "v1"),
    ("tf.disable_v2_behavior()", "v1"),
    ("tf.train.AdamOptimizer(0.1); tf.nn.dropout(x, 0.1)", "v1"),
    ("tf.nn.dropout(x, keep_prob=0.1)", "v1"),
    ("tf.losses.mean_squared_error(y, x); tf.logging.info", "v1"),
    ("tf.metrics.accuracy(y, x)", "v1"),
    ("tf.estimator.inputs.numpy_input_fn; tf.estimator.DNNClassifier([3], c)", "v1"),
    ("tf.compat.v1.logging.info('x'); tf.get_variable('w', [])", "v1"),
    ("tf.reduce_sum(x)", "v1"),
    ("tf.placeholder(tf.float32); hook = tf.estimator.SessionRunHook()", "v1"),
    ("tf.random.set_seed(1)", "v2"),
    ("tf.losses.BinaryCrossentropy(); tf.nn.dropout(x, 0.1)", "v2"),
    ("tf.metrics.Mean()", "v2"),
    ("tf.optimizers.Adam()", "v2"),
    ("tf.summary.scalar('loss', x, step=1)", "v2"),
    ("tf.image.resize(x, [2, 3], antialias=True)", "v2"),
    ("tf.compat.v1.train.get_global_step(); tf.estimator.DNNClassifier([3], c)", "v2"),
    ("tf.compat.v1.disable_eager_execution(); tf.nn.dropout(x, 0.1)", "v2"),
    ("tf.estimator.DNNClassifier([3], c, optimizer=tf.keras.optimizers.Adam(0.1))", "v2"),
    ("v1 = tf.compat.v1; tf.nn.dropout(v1.get_variable('w', []), 0.1)", "v2"),
    ("tf.newaxis", "v1"),
    ("tf.nn.dropout(x, 0.1)", None),
    ("tf.image.resize(x, [2, 3])", None),
    ("tf.estimator.DNNClassifier([3], columns)", None),
    ("tf.placeholder(tf.float32); tf.random.set_seed(1)", None),
  ],
)
def test_a_program_says_which_names_it_means(tmp_path, text, api):
  found = programs(tmp_path, program=f"import tensorflow as tf\n{text}\n")["program"]
  assert found.api == api
  sources = found.sources
  assert imports.changed(sources[0], api).splitlines()[0] == (
    f"import trainer.compat.{api} as tf" if api else "import tensorflow as tf"
  )
  told = "\n".join(report.choices([found]))
  assert told.startswith("unsure " if api is None else f"{api} ")
  if text not in ("tf.reduce_sum(x)", "tf.newaxis"):
    assert "program.py:2)" in told
  assert ("--api=v2" in told) == (api is None)


def test_files_that_import_each_other_mean_the_same_names(tmp_path):
  folder = tmp_path / "package"
  folder.mkdir()
  plain = "import tensorflow as tf\ntf.nn.dropout(x, 0.1)\n"
  (folder / "__init__.py").write_text("")
  (folder / "layers.py").write_text(plain)
  (folder / "model.py").write_text("from . import layers\nimport tensorflow as tf\ntf.Session\n")
  (tmp_path / "alone.py").write_text(plain)
  (tmp_path / "of_2.py").write_text(plain + "tf.random.set_seed(1)\nfrom package.other import f\n")
  (folder / "other.py").write_text(plain)
  found = apis.programs([source.read(path) for path in source.files([str(tmp_path)])])
  named = {frozenset(one.path.stem for one in program.sources): program.api for program in found}
  assert named == {
    frozenset({"__init__"}): "v1",
    frozenset({"layers", "model"}): "v1",
    frozenset({"alone"}): None,
    frozenset({"of_2", "other"}): "v2",
  }


def test_an_import_that_says_its_names_needs_no_evidence(tmp_path):
  text = """
    try:
      import tensorflow.compat.v1 as tf
    except ImportError:
      import tensorflow as tf
    from tensorflow.compat import v2 as tf2
    tf.nn.dropout(x, 0.1), tf2.nn.dropout(x, 0.1)
  """
  found = programs(tmp_path, program=text)["program"]
  new = imports.changed(found.sources[0], found.api)
  assert new.count("import trainer.compat.v1 as tf\n") == 2
  assert "import trainer.compat.v2 as tf2\n" in new


@pytest.mark.parametrize("api", ["v1", "v2"])
def test_keras_comes_from_the_program_s_package(api):
  text = """
    from tensorflow import keras
    from tensorflow.keras.layers import DenseFeatures
    import tensorflow.keras.backend as K
    from tensorflow.keras.optimizers import legacy
    from tensorflow.keras.applications import resnet
  """
  assert changed(textwrap.dedent(text), api) == textwrap.dedent(
    f"""
    from trainer.compat.{api} import keras
    from trainer.compat.{api}.keras.layers import DenseFeatures
    from trainer.compat.{api}.keras import backend as K
    from trainer.compat.{api}.keras.optimizers import legacy
    from trainer.compat.{api}.keras.applications import resnet
    """
  )


@pytest.fixture
def run_command(monkeypatch, capsys):
  """Runs the command in this process, which has imported TensorFlow."""
  monkeypatch.setattr(app, "run", lambda main, flags_parser: main(flags_parser(sys.argv)))

  def run(*arguments):
    monkeypatch.setattr(sys, "argv", ["compat", *map(str, arguments)])
    with flagsaver.flagsaver(), pytest.raises(SystemExit) as ended:
      cli_command.run(command.main, positional=True)
    printed = capsys.readouterr()
    code = int(ended.value.code or 0)
    return subprocess.CompletedProcess(arguments, code, printed.out, printed.err)

  return run


def test_an_ambiguous_program_is_unchanged_until_api_is_given(tmp_path, run_command):
  plain = "import tensorflow as tf\ntf.nn.dropout(x, 0.1)\n"
  path = write(tmp_path, plain)
  done = run_command("--write", path)
  assert done.returncode == 1, done.stderr
  assert f"unsure  {path}: not changed" in done.stdout
  assert f"tf.nn.dropout ({path}:2) means otherwise in each" in done.stdout
  assert path.read_text() == plain
  done = run_command("--write", "--api=v2", path)
  assert done.returncode == 0, done.stderr
  assert path.read_text().startswith("import trainer.compat.v2 as tf\n")


def test_a_file_of_python_2_does_not_stand_in_the_way_of_others(tmp_path, run_command):
  (tmp_path / "a.py").write_text("import tensorflow as tf\n")
  (tmp_path / "b.py").write_text('print "x"\n')
  done = run_command("--write", tmp_path)
  assert done.returncode == 1, done.stderr
  assert f"unread  {tmp_path / 'b.py'}, not changed: not Python 3: Missing" in done.stdout
  assert (tmp_path / "a.py").read_text() == "import trainer.compat.v1 as tf\n"
  alone = run_command(tmp_path / "b.py")
  assert alone.returncode == 2
  assert "is not Python 3" in alone.stderr


@pytest.mark.parametrize(
  ("content", "expected"),
  [
    (
      b"import tensorflow as tf  # a\r\ntf.flags\r\n",
      b"import trainer.compat.v1 as tf  # a\r\ntf.flags\r\n",
    ),
    (b"\xef\xbb\xbfimport tensorflow as tf\n", b"\xef\xbb\xbfimport trainer.compat.v1 as tf\n"),
    (
      b"# coding: latin-1\nx = '\xe9'; import tensorflow as tf\n",
      b"# coding: latin-1\nx = '\xe9'; import trainer.compat.v1 as tf\n",
    ),
    (
      b"\x0c\nimport tensorflow as tf\nx = '\x0c'",
      b"\x0c\nimport trainer.compat.v1 as tf\nx = '\x0c'",
    ),
    (b"import tensorflow as tf", b"import trainer.compat.v1 as tf\n"),
  ],
  ids=["ends of Windows", "byte-order mark", "latin-1", "form feed", "no end"],
)
def test_a_file_keeps_its_encoding_and_ends_of_lines(tmp_path, content, expected):
  path = tmp_path / "a.py"
  path.write_bytes(content)
  read = source.read(path)
  assert imports.changed(read, "v1").encode(read.encoding) == expected
  assert report.diff(read).endswith("\n")


@pytest.mark.parametrize(
  ("path", "message"),
  [("none.py", "none.py is not readable: No such file"), (".", "There is no .py file in")],
)
def test_paths_without_a_program_are_told(tmp_path, run_command, path, message):
  done = run_command(tmp_path / path)
  assert done.returncode == 2
  assert message in done.stderr


# ------------------------------------------------------------------ names inside of TensorFlow


@pytest.mark.parametrize(
  ("text", "absent"),
  [
    ("from tensorflow.python.framework import ops\nops.convert_to_tensor, ops.Tensor", None),
    ("from tensorflow.python.framework import ops\nops.no_such", ""),
    ("import tensorflow.python.util.nest as n\nn.flatten, n.is_sequence", None),
    ("from tensorflow.python.ops import control_flow_ops as c\nc.cond, c.group", None),
    ("from tensorflow.python.ops import array_ops\narray_ops.no_such", "array_ops.no_such"),
    ("from tensorflow.python.gone import thing", "python.gone"),
    ("try:\n  from tensorflow.python.gone import thing\nexcept ImportError:\n  pass", None),
    ("import tensorflow as tf\ntf.train.Saver.restore", None),
    (
      "import tensorflow as tf\ntf.train.Saver.no_such",
      "the class tf.train.Saver has no 'no_such'",
    ),
    ("import tensorflow as tf\ntf.estimator.ModeKeys.INFERENCE", "has no 'INFERENCE'"),
  ],
)
def test_names_inside_of_tensorflow_and_of_classes_are_looked_up(tmp_path, text, absent):
  (tmp_path / "program.py").write_text(text)
  rows = rows_of(tmp_path / "program.py")
  told = [row["advice"] for row in rows if row["status"] == verdicts.ABSENT]
  assert len(told) == (absent is not None)
  assert all(absent in one for one in told)


@pytest.mark.parametrize(
  ("name", "api", "advice"),
  [
    ("train.get_global_step", "v2", "a name of TensorFlow 1. Use tf.compat.v1.train.get_global_"),
    ("contrib.learn.python.learn.datasets.mnist", "v1", "Use keras.datasets, or"),
    ("contrib.slim.training.train", "v1", "only what Estimator programs use is here."),
  ],
)
def test_an_absent_name_is_reported_with_a_name_that_is_there(name, api, advice):
  verdict = verdicts.of(name, api)
  assert verdict.status == verdicts.ABSENT
  assert advice in verdict.advice


def test_a_star_and_a_name_that_is_given_are_no_absent_names(tmp_path):
  path = write(
    tmp_path,
    """
    from tensorflow.compat.v1 import *
    import tensorflow.compat.v1 as tf

    tf.estimator.Estimator._no_such_hook = None
    tf.estimator.Estimator._no_such_name
    """,
  )
  absent = [row for row in rows_of(path) if row["status"] == verdicts.ABSENT]
  assert [row["name"] for row in absent] == ["estimator.Estimator._no_such_name"]


def test_a_missing_package_is_reported_with_its_pip_command(monkeypatch):
  monkeypatch.setitem(sys.modules, "tensorflow_hub", None)
  verdicts.of.cache_clear()
  verdict = verdicts.of("hub.no_such_name")
  assert verdict.status == verdicts.ABSENT
  assert "pip install tensorflow-hub" in verdict.advice


@pytest.mark.parametrize(
  ("name", "is_what"),
  [
    ("contrib.layers.safe_embedding_lookup_sparse", "nn.safe_embedding_lookup_sparse"),
    ("contrib.slim.layers.conv2d", "contrib.layers.conv2d"),
    ("contrib.slim.metrics.streaming_mean", "contrib.metrics.streaming_mean"),
    ("contrib.framework.nest.is_sequence", "nest.is_nested"),
    ("contrib.framework.nest.flatten", "nest.flatten"),
    ("contrib.util.constant_value", "get_static_value"),
    ("keras.experimental.CosineDecay", "keras.optimizers.schedules.CosineDecay"),
    ("__git_version__", "version.GIT_VERSION"),
    ("contrib.hooks.ProfilerHook", "train.ProfilerHook"),
    ("contrib.keras.layers.Dense", "keras.layers.Dense"),
    ("contrib.signal.frame", "signal.frame"),
    ("contrib.util.make_tensor_proto", "make_tensor_proto"),
    ("contrib.data.TFRecordDataset", "data.TFRecordDataset"),
  ],
)
def test_other_names_of_the_same(name, is_what):
  import trainer.compat.v1 as tf

  assert operator.attrgetter(name)(tf) is operator.attrgetter(is_what)(tf)


# ------------------------------------------------------------------ names behind assignments


def absent_names_of(folder, texts):
  """The absent names of files that are written into a folder, by their paths without `.py`."""
  for name, text in texts.items():
    path = folder / f"{name}.py"
    path.parent.mkdir(exist_ok=True)
    path.write_text(textwrap.dedent(text))
  rows = rows_of(*source.files([str(folder)]))
  return {row["name"] for row in rows if row["status"] == verdicts.ABSENT}


@pytest.mark.parametrize(
  ("text", "absent"),
  [
    ("def f():\n  layers = tf.contrib.layers\n  layers.gone", {"contrib.layers.gone"}),
    ("layers = tf.layers\ndef f(layers):\n  layers.append", set()),
    ("layers = tf.layers\ndef f():\n  layers = []\n  layers.append", set()),
    ("m = tf.layers\nif x:\n  m = tf.keras.layers\nm.flatten", set()),
    ("def f(tf):\n  tf.gone", {"gone"}),
  ],
)
def test_names_that_assignments_bind_are_followed(tmp_path, text, absent):
  assert absent_names_of(tmp_path, {"program": f"import tensorflow as tf\n{text}\n"}) == absent


def test_private_modules_have_the_names_that_they_lost():
  text = (
    "from tensorflow.python.framework import ops\nfrom tensorflow.python.util import nest\n"
    "from tensorflow.python.ops import control_flow_ops\nimport tensorflow as tf\n"
  )
  found = {}
  exec(changed(text), found)
  tf = found["tf"]
  assert found["ops"].Tensor is tf.Tensor
  assert found["ops"].get_default_graph is tf.get_default_graph
  assert found["control_flow_ops"].cond is tf.cond
  assert found["nest"].is_sequence is tf.nest.is_nested


def test_a_star_of_a_module_takes_its_names():
  text = "from tensorflow.contrib.layers import *\n"
  assert changed(text) == "from trainer.compat.v1.contrib.layers import *\n"
  found = {}
  exec(changed(text), found)
  assert found["fully_connected"].__module__.startswith("trainer.compat")
  assert "tf" not in found
  exec("from trainer.compat.v2 import *", found)
  assert found["estimator"].__name__ == "trainer.compat.v2.estimator"


@pytest.mark.parametrize("api", ["v1", "v2"])
def test_modules_of_tensorflow_alone_import_as_the_tool_writes(api):
  text = (
    "from tensorflow.signal import hann_window\nimport tensorflow.linalg as linalg\n"
    "from tensorflow.io.gfile import exists\nimport tensorflow as tf\n"
  )
  found = {}
  exec(changed(text, api), found)
  assert found["hann_window"] is found["tf"].signal.hann_window
  assert found["linalg"].eye is found["tf"].linalg.eye
  assert found["exists"] is found["tf"].io.gfile.exists
  with pytest.raises(ImportError, match="no_such_module"):
    exec(changed("import tensorflow.no_such_module as x\n", api), {})


def test_a_program_that_was_changed_is_still_judged(tmp_path, run_command):
  path = write(
    tmp_path, "import tensorflow as tf\nfrom tensorflow.compat import v2\ntf.gone, v2.also\n"
  )
  assert run_command("--write", path).returncode == 1
  text = path.read_text()
  again = run_command("--write", path)
  assert again.returncode == 1
  assert "absent  tf.gone" in again.stdout
  assert "absent  tf.also" in again.stdout
  assert path.read_text() == text


def test_a_package_that_is_not_there_is_no_fine_program(tmp_path, run_command):
  (tmp_path / "own").mkdir()
  (tmp_path / "own" / "file.py").touch()
  text = "import tensorflow as tf\nimport os, numpy, no_such_package.x\nfrom own import file\n"
  path = write(tmp_path, text + "try:\n  import not_needed\nexcept ImportError:\n  pass\n")
  (tmp_path / "other").mkdir()
  (tmp_path / "other" / "beside.py").write_text("import tensorflow as tf\n")
  (tmp_path / "own" / "file.py").write_text("import beside\n")
  done = run_command(tmp_path)
  assert done.returncode == 1
  other = tmp_path / "other"
  told = f"To use {other / 'beside'}, put {other} on PYTHONPATH: {tmp_path / 'own' / 'file.py'}:1\n"
  assert told in done.stdout
  said = f"missing no_such_package is neither installed here nor among the files: {path}:2\n"
  assert done.stdout.endswith(said)


FED = """import tensorflow as tf
{hook}
def run(sess, data, given):
  x = tf.placeholder(tf.float32, [None])
  iterator = tf.data.Dataset.from_tensor_slices(x).make_initializable_iterator()
  sess.run(iterator.initializer, feed_dict={{x: given}})
"""


@pytest.mark.parametrize("is_hook", [True, False])
def test_an_iterator_that_a_hook_feeds_is_told(tmp_path, run_command, is_hook):
  """A program with a session of its own may feed its iterator."""
  hook = "class Hook(tf.train.SessionRunHook):\n  def after_create_session(self, *a): pass"
  path = write(tmp_path, FED.format(hook=hook if is_hook else "\n"))
  done = run_command(path)
  assert done.returncode == is_hook
  said = f"fed     {path}:7: a hook feeds the iterator of an input_fn."
  assert (said in done.stdout) == is_hook


@pytest.mark.parametrize(
  ("text", "is_told"),
  [
    ("with tf.Session() as s: pass", True),
    ("x = tf.train.MonitoredTrainingSession(hooks=[])", True),
    ("with tf.Session(graph=tf.Graph()) as s: pass", False),
    ("with tf.Graph().as_default(), tf.Session() as s: pass", False),
    ("class A(tf.test.TestCase):\n  def test(self): tf.Session()", False),
    ("def f(s: tf.Session): pass", False),
  ],
)
def test_a_session_outside_of_a_graph_is_told(tmp_path, run_command, text, is_told):
  path = write(tmp_path, f"import tensorflow as tf\n{text}\ntf.placeholder\n")
  done = run_command(path)
  assert (f"session {path}:2: a session outside of a graph." in done.stdout) == is_told
  assert done.returncode == is_told


@pytest.mark.parametrize(
  ("base", "method", "is_told"),
  [
    ("tf.keras.optimizers.Optimizer", "_resource_apply_dense", True),
    ("tf.compat.v1.keras.optimizers.Adam", "get_updates", True),
    ("adam.Adam", "_resource_apply_sparse", True),
    ("keras.optimizers.SGD", "_create_slots", True),
    ("tf.keras.optimizers.Optimizer", "update_step", False),
    ("tf.train.Optimizer", "_resource_apply_dense", False),
  ],
)
def test_an_optimizer_of_keras_2_is_told(tmp_path, run_command, base, method, is_told):
  imports = "import keras\nimport tensorflow as tf\nfrom tensorflow.keras.optimizers import legacy"
  text = f"{imports} as adam\ntf.placeholder\nclass Mine({base}):\n  def {method}(self): pass\n"
  path = write(tmp_path, text)
  done = run_command(path, "--api=v1")
  said = f"keras2  {path}:5: Keras 3 calls no {method} of an optimizer, so Mine does not train."
  assert (said in done.stdout) == is_told
  assert done.returncode == is_told


def test_a_programs_own_tensorflow_estimator_is_told(tmp_path, run_command):
  own = tmp_path / "tensorflow_estimator"
  own.mkdir()
  write(own, "import numpy\n")
  path = write(tmp_path, "from tensorflow_estimator.python.estimator import estimator\n")
  assert run_command(path).returncode == 0  # a package of this name may be installed
  done = run_command(str(tmp_path))
  assert f"own     {own} is the program's own package." in done.stdout
  assert done.returncode == 1


def test_a_module_for_an_unused_option_is_there_without_names(tmp_path, run_command):
  path = write(tmp_path, "from tensorflow.contrib import cloud\n")
  assert run_command(path).returncode == 0
  path.write_text("from tensorflow.contrib import cloud\ncloud.BigtableClient\n")
  assert "absent  tf.contrib.cloud.BigtableClient" in run_command(path).stdout


def test_a_class_of_a_module_inside_of_contrib_is_no_module():
  with pytest.raises(ImportError, match="has no contrib.quantize.python.graph_matcher.OpType"):
    from trainer.compat.v1.contrib.quantize.python.graph_matcher import OpTypePattern  # noqa: F401


def test_a_package_of_a_namespace_may_be_missing(tmp_path, run_command, monkeypatch):
  """As google.cloud.storage, where only google.protobuf is installed."""
  (tmp_path / "site" / "shared" / "there").mkdir(parents=True)
  (tmp_path / "site" / "shared" / "there" / "__init__.py").touch()
  monkeypatch.syspath_prepend(tmp_path / "site")
  (tmp_path / "program").mkdir()
  text = "import tensorflow as tf\nimport shared.there\nfrom shared.there import x\n"
  path = write(tmp_path / "program", text)
  assert run_command(path).returncode == 0
  write(tmp_path / "program", text + "import shared.gone.x\nfrom shared import also\n")
  done = run_command(path)
  assert done.returncode == 1
  for line, name in ((4, "shared.gone"), (5, "shared.also")):
    said = f"missing {name} is neither installed here nor among the files: {path}:{line}\n"
    assert said in done.stdout


@pytest.mark.parametrize(
  ("requires", "text", "is_told"),
  [
    ("tensorflow", "from tensorflow.compat.v1 import estimator as tf_estimator", True),
    ("tensorflow-hub", "class Gan(tf.estimator.Estimator): pass", True),
    ("tensorflow", "import tensorflow as tf\ndef f(): return tf.estimator.Estimator", False),
    ("numpy", "import tensorflow.contrib.slim", False),
  ],
)
def test_an_installed_package_that_needs_removed_names_is_told(
  tmp_path, monkeypatch, requires, text, is_told
):
  site, program = tmp_path / "site", tmp_path / "program"
  package, information = site / "older_package", site / "older_package-1.0.dist-info"
  for folder in (package, information, program):
    folder.mkdir(parents=True)
  (package / "__init__.py").write_text(text)
  (information / "METADATA").write_text(
    f"Metadata-Version: 2.1\nName: older-package\nVersion: 1.0\nRequires-Dist: {requires}\n"
  )
  monkeypatch.syspath_prepend(str(site))
  path = write(program, "import older_package.layers\n")
  said = refused.found(apis.programs([source.read(path)]))["older"]
  assert len(said) == is_told
  assert all(f"{path}:1: older_package needs tf.estimator or tf.contrib" in one for one in said)
  own = [source.read(one) for one in (pathlib.Path(path), package / "__init__.py")]
  assert refused.found(apis.programs(own))["older"] == []  # the command changes the copy
