"""A sweep's trials in TensorBoard's tab HParams, as TensorBoard itself reads them."""

import os

from tensorboard.backend.event_processing import plugin_event_multiplexer
from tensorboard.plugins.hparams import metadata, plugin_data_pb2

from trainer.reporting import hparams, summaries, trial_file


def a_trial(number, **bindings):
  return trial_file.Trial(
    sweep="lr",
    id="abc",
    folder="out",
    number=number,
    seed=None,
    bindings=bindings,
    metrics=["accuracy"],
    modes=["max"],
  )


def read(folder):
  """run → (its parameters, whether it has ended)."""
  events = plugin_event_multiplexer.EventMultiplexer().AddRunsFromDirectory(str(folder)).Reload()
  found = {}
  for run, tags in events.PluginRunToTagToContent(metadata.PLUGIN_NAME).items():
    data = {
      tag: plugin_data_pb2.HParamsPluginData.FromString(content) for tag, content in tags.items()
    }
    values = data[metadata.SESSION_START_INFO_TAG].session_start_info.hparams
    shown = {key: getattr(value, value.WhichOneof("kind")) for key, value in values.items()}
    found[run] = shown, metadata.SESSION_END_INFO_TAG in data
  return found


def test_trials_with_their_parameters(tmp_path):
  for number, rate in enumerate(("0.1", "0.01")):
    folder = os.path.join(tmp_path, str(number))
    hparams.begin(folder, a_trial(number, rate=rate, optimizer="@keras.optimizers.Adam"))
    summaries.Writer(folder).scalars(10, {"loss": 1.0})
    if number:
      hparams.end(folder)
  assert read(tmp_path) == {
    "0": ({"rate": 0.1, "optimizer": "@keras.optimizers.Adam"}, False),
    "1": ({"rate": 0.01, "optimizer": "@keras.optimizers.Adam"}, True),
  }
