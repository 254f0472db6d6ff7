"""What libtpu, the TPU's driver and compiler, is told through environment variables."""

import glob
import os

# The chips of a TPU VM: up to v4, and from v5e on.
_CHIPS = ("/dev/accel[0-9]*", "/dev/vfio/[0-9]*")


def chips() -> list[str]:
  """Returns the device files of this machine's TPU chips."""
  return [chip for pattern in _CHIPS for chip in glob.glob(pattern)]


def skip_metadata_query() -> None:
  """Has libtpu not ask for a TPU's metadata on a machine without chips; call it before an import.

  Where there is no server for them, `import tensorflow` of tensorflow-tpu asks for minutes.
  """
  if not chips():
    os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
