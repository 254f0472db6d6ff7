"""Shows this machine's accelerator and its driver, and checks that the installed packages fit.

python -m trainer.devices                 what this machine has
python -m trainer.devices --device=tpu    the same; exit code 2 if there is no TPU
"""

from collections.abc import Sequence

from trainer import errors
from trainer.cli import run_flags
from trainer.devices import tensorflow_package

_DEVICE = run_flags.define_device()
_TPU = run_flags.define_tpu()


def main(argv: Sequence[str]) -> None:
  """Prints the installed packages, the devices of this machine, and the connected device."""
  del argv
  package = tensorflow_package.installed()
  print(f"installed    {package}")
  problem = package.problem()
  print(f"fits         {problem or 'yes'}")
  tensorflow_package.check()

  import tensorflow as tf

  from trainer.devices import device as device_lib
  from trainer.devices import gpu_problems, gpus, nvidia_driver

  print(f"PJRT         {_of_pjrt()}")
  print(f"TPU          {_of_tpu()}")
  driver = nvidia_driver.read()
  print(f"driver       {_of_driver(driver, tf.sysconfig.get_build_info())}")
  seen = len(tf.config.list_physical_devices("GPU"))
  problem = gpu_problems.find(driver, seen)
  named = ", ".join(gpus.names())
  print("GPUs         " + ". ".join(filter(None, [f"{seen} {named}".rstrip(), problem])))
  device = device_lib.connect(_DEVICE.value, _TPU.value)
  print(f"connected    {device} (--device={_DEVICE.value})\nhosts        {device.hosts}")
  print(f"XLA devices  {_xla_devices(device)}")


def _of_tpu():
  from trainer.pjrt import tpu

  signs = tpu.signs()
  return ". ".join(filter(None, [signs, tpu.problem()])) if signs else "no sign of one"


def _of_pjrt():
  from trainer.pjrt import installed

  versions = installed.versions()
  named = ", ".join(f"{name} {version}" for name, version in versions.items())
  plugin = f", {found}" if (found := installed.cuda_plugin()) else ""
  absent = "".join(f", no {name}" for name in installed.PACKAGES if name not in versions)
  return f"{named}{plugin}{absent}".removeprefix(", ") + (
    f" (--device=tpu and xla:8 run by them: {installed.command('tpu')})" if absent else ""
  )


def _xla_devices(device):
  """Returns PJRT's devices: the TPU's, or the CPU's. A GPU's client would allocate its memory."""
  from trainer.pjrt import devices

  try:
    return str(device.xla_devices or devices.connect("cpu"))
  except errors.OctetError as error:
    return str(error)


def _of_driver(driver, build):
  from trainer.devices import gpu_problems

  if driver is None:
    return "no sign of an NVIDIA GPU"
  if driver.failure:
    return "does not answer"
  has = gpu_problems.names(driver) or "no GPU"
  built_for = f"CUDA {build['cuda_version']}" if build.get("is_cuda_build") else "no CUDA"
  return (
    f"NVIDIA {driver.version} for {has}; CUDA {'.'.join(map(str, driver.cuda))} at the most, "
    f"TensorFlow needs {built_for}"
  )
