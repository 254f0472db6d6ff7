"""Engines run an export's signature on the CPU. All have the same interface.

Example:
    engine = engines.load("out/digits/export/1732283000", "auto", batch_size=128)
    engine.predict_batch({"image": images})["probabilities"]
    engine.name                                                # "onnx"

    "tensorflow"      the frozen graph, see `outputs.freezing`; always there
    "onnx"            ONNX Runtime; the extra [onnx]
    "openvino"        OpenVINO, all threads on the same batch; the extra [openvino]
    "openvino_parts"  OpenVINO, each thread with its own part of a batch; the same extra
    "tflite"          TensorFlow Lite, by ai-edge-litert (the extra [litert]) or else by TensorFlow;
                      one call at a time
    "tflite_int8"     the int8 file of an export, see `outputs.runtimes`
    "auto"            the fastest of the first four that are installed. It is measured, because it
                      depends on the model, the processor and the size of the batch
"""

from trainer.outputs.engines.choose import NAMES, check_name, load
from trainer.outputs.engines.engine import Engine

__all__ = ["NAMES", "Engine", "check_name", "load"]
