"""Measures the cost of slow clients for others: requests with and without 2,000 slow connections.

    python -m tests.slow.slow_clients
    python -m tests.slow.slow_clients --connections=2000 --rounds=3 --seconds=20

Needs wrk (`apt-get install wrk`) and the extra [serve]. A slow client sends a byte a second, half
of them in the headers, half in the body, and reconnects if the server ends its connection. Rounds
with and without slow clients alternate. Each round prints requests, failures, p50 and p99, the
server's processor time for a request, which other programs change little, and the server's memory.
"""

import argparse
import asyncio
import contextlib
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse

from tests.slow import serve_under_load

_HEAD = b"POST /v1/models/loaded:predict HTTP/1.1\r\nHost: a\r\nContent-Length: 5000\r\n"


async def slow_client(host, port, number):
  """Sends a byte a second, endlessly: of its headers, or after them of its body."""
  await asyncio.sleep(number % 1000 / 1000)  # not all at the same moment
  start = _HEAD + (b"\r\n" if number % 2 else b"X-Slow: ")
  while True:
    with contextlib.suppress(OSError):
      reader, writer = await asyncio.open_connection(host, port)
      with contextlib.closing(writer):
        writer.write(start)
        while not reader.at_eof() and not writer.is_closing():
          writer.write(b"a")
          await writer.drain()
          await asyncio.sleep(1)
    await asyncio.sleep(1)


async def slow_clients(address, count):
  """Runs slow clients until the process dies."""
  place = urllib.parse.urlparse(address)
  await asyncio.gather(*(slow_client(place.hostname, place.port, each) for each in range(count)))


def server_seconds(process_id):
  """Returns a process's used processor time."""
  fields = pathlib.Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
  return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def beside(address, count):
  """Runs slow clients in another process, and waits until they are connected."""
  if not count:
    yield
    return
  command = [sys.executable, "-m", "tests.slow.slow_clients", f"--to={address}"]
  with subprocess.Popen([*command, f"--connections={count}"]) as process:
    try:
      time.sleep(5)
      yield
    finally:
      process.kill()


def measure(address, path, process_id, script, seconds, good):
  """Returns wrk's report on a round, and the server's processor time for a request."""
  before = server_seconds(process_id)
  command = ["wrk", "-t1", f"-c{good}", f"-d{seconds}s", "--timeout=30s", f"-s{script}"]
  done = subprocess.run([*command, address + path], stdout=subprocess.PIPE, text=True, check=True)
  found = json.loads(done.stdout.splitlines()[-1])
  used = server_seconds(process_id) - before
  failed = sum(found[name] for name in ("not_200", "socket_errors", "timeouts"))
  return {
    "requests": found["requests"],
    "failed": failed,
    "p50 ms": found["p50"],
    "p99 ms": found["p99"],
    "server s": used,
    "ms of the server": 1000 * used / found["requests"],
    "MiB": serve_under_load.memory(address),
  }


def main():
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument("--connections", type=int, default=2000)
  parser.add_argument("--good", type=int, default=8, help="connections that ask without a pause")
  parser.add_argument("--rounds", type=int, default=3)
  parser.add_argument("--seconds", type=int, default=20)
  parser.add_argument("--export_base", help="a folder of exports")
  parser.add_argument("--to", help="be the slow clients of this address")
  arguments = parser.parse_args()
  if arguments.to:
    asyncio.run(slow_clients(arguments.to, arguments.connections))
  if not shutil.which("wrk"):
    parser.error("wrk is not installed: `apt-get install wrk`")
  found = {0: [], arguments.connections: []}
  with tempfile.TemporaryDirectory() as folder:
    export_base = arguments.export_base or serve_under_load.train_digits(folder)
    with serve_under_load.server(export_base, "tensorflow") as (address, _, process_id):
      path, headers, body = serve_under_load.good_request(address)
      script = serve_under_load.write_script(folder, headers, body)
      for _ in range(arguments.rounds):
        for count, rounds in found.items():
          with beside(address, count):
            given = (process_id, script, arguments.seconds, arguments.good)
            rounds.append(measure(address, path, *given))
          shown = ", ".join(f"{name} {value:.4g}" for name, value in rounds[-1].items())
          print(f"{count} slow clients: {shown}", flush=True)
  without, with_them = found.values()
  for name in ("p99 ms", "ms of the server"):
    medians = [statistics.median(each[name] for each in some) for some in (without, with_them)]
    times = medians[1] / medians[0]
    print(f"{name}: {medians[0]:.3g} without, {medians[1]:.3g} with, {times:.2f} times")
  if any(each["failed"] for each in [*without, *with_them]):
    sys.exit("Requests failed.")


if __name__ == "__main__":
  main()
