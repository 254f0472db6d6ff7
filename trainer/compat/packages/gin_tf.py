"""gin.tf: the hook that keeps the configuration of a run, without tf.estimator."""

import os
from typing import Any

import gin
import tensorflow as tf

from trainer.io import storage

v1 = tf.compat.v1


class GinConfigSaverHook(v1.train.SessionRunHook):
  """Writes the operative configuration at the start of a training.

  Args:
    output_dir: the folder of the file and of the summary.
    base_name: the file's name is `<base_name>-<step>.gin`.
    summarize_config: whether TensorBoard shows it too.
    summary_writer: no effect: the hook writes TensorBoard's copy to output_dir.
    include_step_in_filename: whether the file's name has the step.
  """

  def __init__(
    self,
    output_dir: str,
    base_name: str = "operative_config",
    summarize_config: bool = True,
    summary_writer: Any = None,
    include_step_in_filename: bool = True,
  ):
    del summary_writer
    self._output_dir, self._base_name = output_dir, base_name
    self._summarizes, self._with_step = summarize_config, include_step_in_filename
    self._global_step: Any = None

  def begin(self) -> None:
    self._global_step = v1.train.get_global_step()

  def after_create_session(self, session: Any = None, coord: Any = None) -> None:
    step = 0 if self._global_step is None else int(session.run(self._global_step))
    text = gin.operative_config_str()
    name = f"{self._base_name}-{step}.gin" if self._with_step else f"{self._base_name}.gin"
    storage.makedirs(self._output_dir)
    storage.write(os.path.join(self._output_dir, name), text.encode())
    if self._summarizes:
      with tf.summary.create_file_writer(self._output_dir).as_default():
        tf.summary.text(f"gin/{self._base_name}", gin.markdown(text), step)
