"""Makes the input of trainings on other machines: a tf.data service.

  python -m trainer.data_service dispatcher --port=5000 --journal=/shared/journal
  python -m trainer.data_service worker --dispatcher=HOST:5000 --gin_file=gin_configs/digits.gin

One dispatcher distributes the work to any number of workers. A training uses them with
run.train_input_service = "grpc://HOST:5000". A restarted dispatcher with --journal continues where
it was. Every program that reaches the ports can make the processes run TensorFlow programs: close
their network to others.
"""

import re
import socket
import threading

from absl import flags, logging

from trainer import errors
from trainer.config import gin_flags

# How long a worker may be silent (normally a second), and how often the dispatcher checks: its log
# names a lost worker after twenty seconds. TensorFlow's default is ten minutes.
_SILENCE_MILLISECONDS = 20_000
_LOOK_MILLISECONDS = 2_000

_PORT = flags.DEFINE_integer(
  "port",
  0,
  "The port to listen at; for a worker 0 means any free port.",
  lower_bound=0,
  upper_bound=65535,
)
_JOURNAL = flags.DEFINE_string(
  "journal", "", "Dispatcher: the folder of its journal, for a restart."
)
_DISPATCHER = flags.DEFINE_string("dispatcher", "", "Worker: the dispatcher's HOST:PORT.")
_HOST = flags.DEFINE_string(
  "host", socket.gethostname(), "Worker: the name or address at which trainings reach it."
)
flags.adopt_module_key_flags(gin_flags)
_TIMEOUT_SECS = flags.DEFINE_float(
  "timeout_secs", 600.0, "Worker: how long to wait for the dispatcher.", lower_bound=0.0
)


def main(argv: list[str]) -> None:
  """Runs a dispatcher or a worker until the process ends.

  Raises:
    SettingError: an argument is missing or wrong, or the port is in use.
    WorkerLostError: the dispatcher does not answer.
  """
  if argv[1:] not in (["dispatcher"], ["worker"]):
    raise errors.SettingError(
      f"The command is {' '.join(argv[1:]) or 'missing'}: expected dispatcher or worker."
    )
  server = _dispatcher() if argv[1] == "dispatcher" else _worker()
  threading.Event().wait()  # Server.join would not hear Ctrl-C
  del server


def _dispatcher():
  if not _PORT.value:
    raise errors.SettingError("A dispatcher needs --port: trainings and workers connect to it.")
  if _DISPATCHER.value or gin_flags.GIN_FILE.value:
    raise errors.SettingError(
      "--dispatcher and --gin_file are for a worker; a dispatcher takes --port."
    )
  import tensorflow as tf

  service = tf.data.experimental.service
  options = service.DispatcherConfig(
    port=_PORT.value,
    work_dir=_JOURNAL.value or None,
    fault_tolerant_mode=bool(_JOURNAL.value),
    job_gc_check_interval_ms=_LOOK_MILLISECONDS,
    worker_timeout_ms=_SILENCE_MILLISECONDS,
  )
  server = _started(lambda: service.DispatchServer(options))
  logging.info(
    "Dispatcher at port %d. %s",
    _PORT.value,
    f"Its journal is in {_JOURNAL.value}."
    if _JOURNAL.value
    else "Without --journal, a restarted dispatcher knows none of its trainings.",
  )
  return server


def _worker():
  match = re.fullmatch(r"(.+):(\d{1,5})", _DISPATCHER.value)
  if not match or "/" in _DISPATCHER.value or not 0 < int(match[2]) < 1 << 16:
    raise errors.SettingError(
      f"--dispatcher is {_DISPATCHER.value!r}; a worker needs the dispatcher's HOST:PORT, with a "
      "port of 1 to 65535."
    )
  if gin_flags.GIN_FILE.value:
    gin_flags.load()
  import tensorflow as tf

  from trainer.inputs import data_service

  data_service.require_answer(match[1].strip("[]"), int(match[2]), _TIMEOUT_SECS.value)
  service = tf.data.experimental.service
  options = service.WorkerConfig(
    dispatcher_address=_DISPATCHER.value,
    worker_address=f"{_HOST.value}:%port%",
    port=_PORT.value,
    heartbeat_interval_ms=1000,
  )
  server = _started(lambda: service.WorkerServer(options))
  logging.info("Worker at %s, for the dispatcher at %s.", _HOST.value, _DISPATCHER.value)
  return server


def _started(start):
  """Starts a server; raises SettingError if it cannot start."""
  import tensorflow as tf

  try:
    return start()
  except (tf.errors.OpError, RuntimeError, ValueError) as error:
    raise errors.SettingError(
      f"The server does not start (--port={_PORT.value}): {errors.first_line(error)}"
    ) from error
