"""Trains, evaluates, predicts with or exports the model that a gin file describes.

  python -m trainer.main --gin_file=gin_configs/digits.gin --model_dir=out/digits
  python -m trainer.main --gin_file=gin_configs/cifar10_cnn.gin --model_dir=out/c --device=tpu

An existing run in --model_dir resumes from its newest checkpoint.
"""

from absl import flags

from trainer import errors
from trainer.cli import command, run_flags
from trainer.config import gin_flags
from trainer.loop import preemption

flags.adopt_module_key_flags(gin_flags)
_MODEL_DIR = flags.DEFINE_string(
  "model_dir", None, "The folder of the run, local or gs://... An existing run resumes."
)
_MODES = ["train", "evaluate", "train_and_evaluate", "continuous_eval", "predict", "export"]
_MODE = flags.DEFINE_enum("mode", "train_and_evaluate", _MODES, "The work to do.")
_DEVICE = run_flags.define_device()
_TPU = run_flags.define_tpu()
_CLUSTER = flags.DEFINE_string(
  "cluster",
  "",
  "How the processes of one training find each other: tf_config (the default with TF_CONFIG), "
  "slurm, kubernetes or tpu; with :PORT for another port.",
)
_PRECISION = run_flags.define_precision()
_COMPILED = flags.DEFINE_string(
  "compiled",
  "auto",
  "A local folder of compiled programs for XLA devices (--device=tpu and xla:8). Octet loads a "
  "program of the folder; otherwise it compiles the program and adds it. auto: "
  "~/.cache/octet/compiled; --compiled= for none.",
)
_SEED = run_flags.define_seed()
_FORCE = flags.DEFINE_bool(
  "force", False, "Take --model_dir from another training; that training ends at its next save."
)
_DRY_RUN = flags.DEFINE_bool(
  "dry_run", False, "Run one step of each kind on one batch, report, write nothing."
)
_STRICT_GIN = flags.DEFINE_bool(
  "strict_gin", False, "Bindings that nobody uses are an error, not a warning."
)
_PROFILE = flags.DEFINE_bool(
  "profile",
  False,
  "Measure the time of some training steps by input, host and device, and profile them for "
  "TensorBoard: the hook Profiler.",
)
_BENCHMARK_INPUT = flags.DEFINE_bool(
  "benchmark_input",
  False,
  "Run only the input pipelines of the mode, report their speed and their slowest stage, write "
  "nothing.",
)


def main(argv: list[str]) -> None:
  """Loads the configuration and runs the experiment.

  Raises:
    SettingError: a flag is missing or wrong.
    OctetError: the run failed; see `trainer.experiment.run`.
  """
  del argv
  if not gin_flags.GIN_FILE.value:
    raise errors.SettingError(
      "No --gin_file. Try: python -m trainer.main "
      "--gin_file=gin_configs/digits.gin --model_dir=out/digits"
    )
  if not (_MODEL_DIR.value or _DRY_RUN.value or _BENCHMARK_INPUT.value):
    raise errors.SettingError(
      "No --model_dir: give the folder for checkpoints and summaries, such "
      "as --model_dir=out/digits."
    )
  with preemption.own_process_scope():
    gin_flags.load()
    # This imports TensorFlow and takes seconds: only after the checks of flags and gin files.
    from trainer import experiment

    experiment.run(
      experiment.Flags(
        model_dir=_MODEL_DIR.value,
        mode=_MODE.value,
        device=_DEVICE.value,
        tpu=_TPU.value,
        cluster=_CLUSTER.value,
        precision=_PRECISION.value,
        compiled=_COMPILED.value,
        seed=_SEED.value,
        force=_FORCE.value,
        dry_run=_DRY_RUN.value,
        strict_gin=_STRICT_GIN.value,
        benchmark_input=_BENCHMARK_INPUT.value,
        profile=_PROFILE.value,
      )
    )


if __name__ == "__main__":
  command.run(main)
