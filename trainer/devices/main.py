"""Says which accelerator this machine has and whether what is installed fits it.

python -m trainer.devices                 what this machine has
python -m trainer.devices --device=tpu    the same; exit code 2 if there is no TPU
"""

from collections.abc import Sequence

from absl import flags

from trainer.devices import tensorflow_package

_DEVICE = flags.DEFINE_string(
  "device", "auto", "auto, cpu, cpu:8, gpu, gpu:N or tpu: the device to connect to."
)
_TPU = flags.DEFINE_string("tpu", "", "The name or address of a TPU.")


def main(argv: Sequence[str]) -> None:
  """Prints what is installed, what this machine has, and what was connected to."""
  del argv
  package = tensorflow_package.installed()
  print(f"installed    {package}")
  problem = package.problem()
  print(f"fits         {problem or 'yes'}")
  tensorflow_package.check()

  import tensorflow as tf

  from trainer.devices import device as device_lib

  address, source = device_lib.find_tpu(_TPU.value)
  print(f"TPU          {f'{address} (from {source})' if address else 'no sign of one'}")
  gpus = tf.config.list_physical_devices("GPU")
  names = [
    tf.config.experimental.get_device_details(gpu).get("device_name", gpu.name) for gpu in gpus
  ]
  print(f"GPUs         {len(gpus)} {', '.join(names)}".rstrip())
  device = device_lib.connect(_DEVICE.value, _TPU.value)
  print(f"connected    {device} (--device={_DEVICE.value})\nhosts        {device.hosts}")
