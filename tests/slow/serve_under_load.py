"""Loads trainer.serve for a minute with 64 connections that ask without a pause.

No request may fail.

    python -m tests.slow.serve_under_load
    python -m tests.slow.serve_under_load --export_base=out/cifar10/export --seconds=60

Needs wrk (`apt-get install wrk`) and the extra [serve]. Without --export_base the command trains
the digits, which takes seconds. The requests are PNGs for a model of images, else zeros. Meanwhile

- a newer export appears and must replace the older one,
- and the command sends unusable requests: malformed JSON, a wrong shape, a body of 50 MB, a
  truncated JPEG. The answer to each must be 4xx and one sentence.

It prints requests, errors, p50, p99 and the longest, from wrk, and the server's memory, ten times
after it has loaded the newer export. The server and wrk share the CPUs.
"""

import argparse
import base64
import contextlib
import http.client
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

import numpy as np

CONNECTIONS = 64
_NAME = "loaded"

# wrk's last action: print a line of JSON.
SCRIPT = """
wrk.method = "POST"
local file = io.open("{folder}/body", "rb")
wrk.body = file:read("*a")
file:close()
{headers}
function done(summary, latency, requests)
  local e = summary.errors
  io.write(string.format(
    '{{"requests": %d, "seconds": %.3f, "not_200": %d, "socket_errors": %d, "timeouts": %d, ' ..
    '"p50": %.3f, "p99": %.3f, "longest": %.3f}}\\n',
    summary.requests, summary.duration / 1e6, e.status, e.connect + e.read + e.write, e.timeout,
    latency:percentile(50) / 1000, latency:percentile(99) / 1000, latency.max / 1000))
end
"""


def train_digits(folder):
  """Returns the folder of exports of a digits network."""
  command = [sys.executable, "-m", "trainer.main", "--gin_file=gin_configs/digits.gin"]
  subprocess.run([*command, f"--model_dir={folder}/digits"], check=True, capture_output=True)
  return f"{folder}/digits/export"


@contextlib.contextmanager
def server(export_base, engine):
  """Yields a server's address, a function that reads its log, and its process id."""
  command = [sys.executable, "-m", "trainer.serve", f"--export_base={export_base}", "--port=0"]
  command += [f"--name={_NAME}", f"--engine={engine}", "--reload_secs=1"]
  with tempfile.TemporaryFile("w+") as log, subprocess.Popen(command, stderr=log) as process:
    try:
      deadline = time.monotonic() + 300
      while not (found := re.search(r"at (http://\S+)/\n", _read(log))):
        if process.poll() is not None or time.monotonic() > deadline:
          sys.exit(f"The server did not start:\n{_read(log)}")
        time.sleep(0.2)
      yield found[1], lambda: _read(log), process.pid
    finally:
      process.kill()


def _read(log):
  log.seek(0)
  return log.read()


def get(address, path):
  """Returns the JSON, or the text, of a path."""
  with urllib.request.urlopen(address + path, timeout=60) as answer:
    text = answer.read().decode()
    return json.loads(text) if answer.headers["content-type"] == "application/json" else text


def post(address, body):
  """Returns (status code, body) of a request; the answer may come before the end of the body."""
  connection = http.client.HTTPConnection(urllib.parse.urlparse(address).netloc, timeout=60)
  connection.putrequest("POST", f"/v1/models/{_NAME}:predict")
  connection.putheader("Content-Length", str(len(body)))
  connection.endheaders()
  with contextlib.suppress(BrokenPipeError, ConnectionResetError):
    connection.send(body)
  answer = connection.getresponse()
  return answer.status, answer.read().decode()


def good_request(address):
  """Returns (path, headers, body) of a valid request: an image, or zeros."""
  import tensorflow as tf

  about = get(address, f"/v1/models/{_NAME}/about")
  metadata = get(address, f"/v1/models/{_NAME}/metadata")["metadata"]
  inputs = metadata["signature_def"]["signature_def"]["serving_default"]["inputs"]
  shapes = {
    name: [int(dim["size"]) for dim in tensor["tensor_shape"]["dim"][1:]]
    for name, tensor in inputs.items()
  }
  png = None
  if about["image"]:
    pixels = np.random.default_rng(1).integers(0, 256, shapes[about["image"]], dtype=np.uint8)
    png = tf.io.encode_png(pixels).numpy()
  if png:
    encoded = base64.b64encode(png).decode()
    body = {"signature_name": "from_bytes", "instances": [{about["image"]: {"b64": encoded}}]}
  else:
    body = {"inputs": {name: np.zeros([1, *shape]).tolist() for name, shape in shapes.items()}}
  headers = {"Content-Type": "application/json"}
  return f"/v1/models/{_NAME}:predict", headers, json.dumps(body).encode()


def write_script(folder, headers, body):
  """Writes wrk's request, and returns the path of its script."""
  pathlib.Path(folder, "body").write_bytes(body)
  lines = "\n".join(f'wrk.headers["{name}"] = "{value}"' for name, value in headers.items())
  script = pathlib.Path(folder, "post.lua")
  script.write_text(SCRIPT.format(folder=folder, headers=lines))
  return str(script)


def bad_requests():
  """Returns name → an unusable body."""
  import tensorflow as tf

  jpeg = tf.io.encode_jpeg(np.zeros([64, 64, 3], np.uint8)).numpy()
  cut_off = {"b64": base64.b64encode(jpeg[: len(jpeg) // 2]).decode()}
  return {
    "malformed JSON": b'{"instances": [[1, 2',
    "a wrong shape": b'{"instances": [[1, 2]]}',
    "a body of 50 MB": b" " * 50_000_000,
    "a JPEG that is cut off": json.dumps(
      {"signature_name": "from_bytes", "instances": [cut_off]}
    ).encode(),
  }


def publish_copy(export_base):
  """Publishes a newer export with the same contents: writes it aside and renames it."""
  newest = max(path for path in pathlib.Path(export_base).iterdir() if path.name.isdigit())
  newer = newest.with_name(str(int(newest.name) + 1))
  aside = newest.with_name(f".writing-{newer.name}")
  shutil.copytree(newest, aside)
  os.rename(aside, newer)
  return newer.name


def check_bad_requests(address):
  """Sends unusable requests; exits unless the server refuses each in a sentence."""
  for name, body in bad_requests().items():
    status, text = post(address, body)
    said = json.loads(text)["error"]
    print(f"  {name}: {status} {said}")
    if not 400 <= status < 500 or "\n" in said:
      sys.exit(f"{name} was not refused: {status} {text}")


def wait_for_version(address, version, limit):
  """Returns once the server uses this version; exits after the limit in seconds."""
  start = time.monotonic()
  while (found := get(address, f"/v1/models/{_NAME}")["model_version_status"][0])[
    "version"
  ] != version:
    if time.monotonic() - start > limit:
      sys.exit(f"The newer export {version} is not served: {found}")
    time.sleep(0.5)
  print(f"  version {version} was served {time.monotonic() - start:.1f} s after it appeared")


def memory(address):
  """Returns the server's memory in MiB."""
  found = re.search(r"^process_resident_memory_bytes (\S+)$", get(address, "/metrics"), re.M)
  return float(found[1]) / 2**20


def load(address, export_base, seconds, folder):
  """Runs wrk, and meanwhile publishes a newer export and sends unusable requests."""
  path, headers, body = good_request(address)
  script = write_script(folder, headers, body)
  command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "--timeout=30s", f"-s{script}"]
  with subprocess.Popen([*command, address + path], stdout=subprocess.PIPE, text=True) as wrk:
    try:
      time.sleep(seconds / 4)
      wait_for_version(address, publish_copy(export_base), seconds / 2)
      check_bad_requests(address)
      if wrk.poll() is not None:
        sys.exit("wrk ended before the newer export was served: give more --seconds.")
      while wrk.poll() is None:
        print(f"  {memory(address):.0f} MiB", flush=True)
        time.sleep(seconds / 10)
      return json.loads(wrk.communicate()[0].splitlines()[-1])
    finally:
      wrk.kill()


def main():
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument("--export_base", help="a folder of exports; it is copied")
  parser.add_argument("--engine", default="auto")
  parser.add_argument("--seconds", type=int, default=60)
  arguments = parser.parse_args()
  if not shutil.which("wrk"):
    parser.error("wrk is not installed: `apt-get install wrk`")
  with tempfile.TemporaryDirectory() as folder:
    export_base = arguments.export_base or train_digits(folder)
    copied = os.path.join(folder, "copied")
    shutil.copytree(export_base, copied)
    with server(copied, arguments.engine) as (address, log, _):
      print("\n".join(line for line in log().splitlines() if "Engine for" in line))
      found = load(address, copied, arguments.seconds, folder)
      metrics = get(address, "/metrics")
      if get(address, "/healthz") != {"status": "ok"}:
        sys.exit("The server is not well.")
  print(", ".join(f"{name} {value:g}" for name, value in found.items()), "(milliseconds)")
  calls = float(re.search(r"octet_batch_examples_count\{[^}]*\} (\S+)", metrics)[1])
  print(
    f"{found['requests'] / found['seconds']:.0f} requests a second, "
    f"{found['requests'] / calls:.1f} to a call of the model"
  )
  failed = re.findall(
    r'octet_requests_total\{code="(5\d\d)",model="\w+",verb="\w+"\} (\S+)', metrics
  )
  if found["not_200"] or found["socket_errors"] or found["timeouts"] or failed:
    sys.exit(f"Requests failed: {found}, {failed}")


if __name__ == "__main__":
  main()
