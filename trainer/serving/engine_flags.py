"""The flags of commands that run exports. Only the main files of commands import this."""

from absl import flags

ENGINE = flags.DEFINE_string(
  "engine",
  "auto",
  "tensorflow, onnx, openvino, openvino_parts, tflite, tflite_int8, or auto for the fastest "
  "installed one.",
)
PRECISION = flags.DEFINE_string(
  "precision",
  "float32",
  "The number type of the engine's arithmetic; bfloat16 with --engine=openvino alone.",
)
