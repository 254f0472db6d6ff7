"""python -m trainer.compat: the imports that change, the names that are used, what cannot work."""

import io
import json
import subprocess
import sys
import textwrap

import pytest
from absl import flags
from absl.testing import flagsaver

from trainer.compat import __main__ as command
from trainer.compat.scan import imports, report, source, verdicts


def changed(text):
  """The text of a program with its imports changed."""
  tree = source.ast.parse(textwrap.dedent(text))
  with_gin = source._uses_old_gin(tree)
  found = [one for node in source.ast.walk(tree) for one in source._imports(node, with_gin)]
  return imports.changed(source.Source(None, textwrap.dedent(text), found, []))


def test_imports_change_and_nothing_else():
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


def test_imports_that_stay():
  for text in (
    "import tensorflow_datasets as tfds\n",
    "from tensorflow.keras import layers\n",
    "from tensorflow.python.ops import math_ops\n",
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
  path = write(tmp_path, "import tensorflow as tf\ntf.reduce_sum\ntf.contrib.seq2seq.Helper\n")
  rows = report.rows([source.read(path)])
  assert [row["status"] for row in rows] == [verdicts.ABSENT, verdicts.WORKS]
  assert rows[0]["places"] == [f"{path}:3"]
  assert "1 that cannot work" in report.table(rows)


def test_names_inside_of_tensorflow_estimator_cannot_work_and_are_told_when_imported(tmp_path):
  path = write(
    tmp_path,
    """
    import tensorflow.compat.v2 as tf
    from tensorflow_estimator.python.estimator.head import regression_head
    from tensorflow_estimator.python.estimator.tpu import tpu_estimator

    tf.estimator.Estimator(tf.reduce_sum)
    tpu_estimator.BatchConfig
    """,
  )
  rows = {row["name"]: row for row in report.rows([source.read(path)])}
  head = rows["estimator.head.regression_head"]
  assert (head["status"], head["places"]) == (verdicts.ABSENT, [f"{path}:3"])
  assert "inside of tensorflow_estimator" in head["advice"]
  assert "estimator.RegressionHead" in head["advice"]
  batch = rows["estimator.tpu.tpu_estimator.BatchConfig"]
  assert (batch["status"], batch["places"]) == (verdicts.ABSENT, [f"{path}:7"])
  assert "estimator.tpu.TPUEstimator" in batch["advice"]
  estimator = rows["compat.v2.estimator.Estimator"]
  assert (estimator["status"], estimator["places"]) == (verdicts.SHIM, [f"{path}:6"])
  assert rows["compat.v2.reduce_sum"]["status"] == verdicts.WORKS


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
  rows = {row["name"]: row["status"] for row in report.rows([source.read(path)])}
  assert rows == {
    "contrib.tpu.python.tpu.tpu_config.InputPipelineConfig.PER_HOST_V2": verdicts.SHIM,
    "contrib.tpu.python.tpu.tpu_config.no_such_name": verdicts.ABSENT,
    "contrib.training.python.training.evaluation.checkpoints_iterator": verdicts.WORKS,
    "contrib.training.python.training.hparam.HParams": verdicts.SHIM,
    "estimator.estimator._load_global_step_from_checkpoint_dir": verdicts.SHIM,
  }


def test_the_command_writes_and_tells_by_its_exit_code(tmp_path):
  path = write(tmp_path, "import tensorflow as tf\ntf.layers.dense\ntf.contrib.gan.x\n")
  arguments = [sys.executable, "-m", "trainer.compat", "--json", "--write", str(tmp_path)]
  done = subprocess.run(arguments, capture_output=True, text=True, timeout=120, check=False)
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


def test_modules_inside_of_tf_estimator_are_those_that_have_their_names_here():
  assert changed("from tensorflow.python.estimator.model_fn import ModeKeys as Modes\n") == (
    "from trainer.compat.v1.estimator import ModeKeys as Modes\n"
  )
  assert changed("from tensorflow_estimator.python.estimator.inputs import numpy_io\n") == (
    "from trainer.compat.v1.estimator import inputs as numpy_io\n"
  )
  assert changed("from tensorflow.python.estimator import model_fn as model_fn_lib\n") == (
    "from trainer.compat.v1 import estimator as model_fn_lib\n"
  )


def test_a_package_trainer_of_the_program_hides_octet(tmp_path):
  folder = tmp_path / "trainer"
  folder.mkdir()
  (folder / "model.py").write_text("import tensorflow as tf\n")
  for text, is_hidden in (
    ("import trainer.model as model\n", True),
    ("from trainer import model\n", True),
    ("import trainer.compat.v1 as tf\n", False),
    ("from . import model\n", False),
  ):
    task = folder / "task.py"
    task.write_text(text)
    rows = report.rows([source.read(path) for path in source.files([str(tmp_path)])])
    assert [row["places"] for row in rows] == ([[f"{task}:1"]] if is_hidden else [])
    assert ("absent  trainer\n" in report.table(rows)) == is_hidden
