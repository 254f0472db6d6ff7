"""What test_workers.py starts: one worker of a cluster.

Arguments: index, ports (comma-separated), model_dir, steps, and 1 to be slow.
"""

import json
import os
import sys


def main(index, ports, model_dir, steps, slow):
  ports = ports.split(",")
  os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
  cluster = {"worker": [f"localhost:{port}" for port in ports]}
  os.environ["TF_CONFIG"] = json.dumps(
    {"cluster": cluster, "task": {"type": "worker", "index": int(index)}}
  )
  from tests.trainer import programs
  from trainer import errors

  def announce(step, metrics, estimator):
    print(f"step {step}", flush=True)

  estimator = programs.estimator(
    model_dir, device="cpu", save_checkpoints_steps=5, **programs.fixed_loops(1 if int(slow) else 5)
  )
  try:
    estimator.train(programs.train_input, max_steps=int(steps), hooks=[announce])
  except errors.WorkerLostError as error:
    print(f"lost: {error}", flush=True)
    sys.exit(error.exit_code)
  result = estimator.evaluate(programs.examples(37))
  print(
    json.dumps(
      {
        "w": estimator.variables["w"].numpy().tolist(),
        "loss": result["loss"],
        "chief": estimator.device.is_chief,
      }
    ),
    flush=True,
  )


if __name__ == "__main__":
  main(*sys.argv[1:])
