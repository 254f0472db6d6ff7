"""The kernel gradient of Conv2D as matrix products, for small bfloat16 images on a CPU.

    ∂L/∂kernel[i, j] = patches(i, j)ᵀ · ∂L/∂outputs

`patches(i, j)` is the padded input from row i and column j on, as a matrix [b·h·w, channels]. Each
place (i, j) of the kernel takes one matrix product.

TensorFlow calls oneDNN for this gradient. In bfloat16 oneDNN takes about twice as long as for the
gradient of the input, whose arithmetic is the same. Measured with TensorFlow 2.21 on two cores of
an AMD EPYC with avx512_bf16, 256 channels to 256, kernels of 3×3: 7×7 images take 0.55 of oneDNN's
time (batch 1,024) and 0.64 (batch 128); 3×3 images 0.55; 10×10 images 0.70. At 14×14 images both
take the same time, with 64 channels oneDNN is faster, and in float32 it is faster at every size.
"""

import keras
import tensorflow as tf

from trainer.internals import patches
from trainer.tracing.cpu_kernels import switch

# The bounds of the measurements above, within which the matrix products are faster.
LARGEST_IMAGE = 10
FEWEST_CHANNELS = 256


@patches.replaces(keras.layers.Conv2D, "convolution_op", inside=switch.is_on)
def _convolution_op(keras_convolution_op, layer, inputs, kernel):
  kernel = tf.convert_to_tensor(kernel)
  if not _is_faster(layer, inputs, kernel):
    return keras_convolution_op(layer, inputs, kernel)

  @tf.custom_gradient
  def convolve(inputs, kernel):
    def gradients(of_outputs):
      of_inputs = tf.nn.conv2d_transpose(
        of_outputs, kernel, tf.shape(inputs), strides=1, padding="SAME"
      )
      return of_inputs, _kernel_gradient(inputs, kernel.shape, of_outputs)

    return keras_convolution_op(layer, inputs, kernel), gradients

  return convolve(inputs, kernel)


def _is_faster(layer, inputs, kernel):
  """Returns whether this is a plain bfloat16 convolution within the bounds above."""
  if layer.data_format != "channels_last" or layer.padding != "same" or layer.groups != 1:
    return False
  if tuple(layer.strides) != (1, 1) or tuple(layer.dilation_rate) != (1, 1):
    return False
  if inputs.dtype != tf.bfloat16 or kernel.dtype != tf.bfloat16:
    return False
  height, width, channels = inputs.shape.as_list()[1:]
  return (
    None not in (height, width)
    and max(height, width) <= LARGEST_IMAGE
    and max(kernel.shape[:2]) > 1  # Keras's own gradient of a 1×1 kernel is one matrix product
    and min(channels, kernel.shape[-1]) >= FEWEST_CHANNELS
  )


def _kernel_gradient(inputs, shape, of_outputs):
  """Returns the gradient of a kernel [height, width, channels, filters] in the inputs' dtype."""
  height, width = shape[:2]
  rows, columns, channels = inputs.shape.as_list()[1:]
  # The padding "SAME" has the smaller half in front.
  above, left = (height - 1) // 2, (width - 1) // 2
  padded = tf.pad(inputs, [[0, 0], [above, height - 1 - above], [left, width - 1 - left], [0, 0]])
  of_outputs = tf.reshape(of_outputs, [-1, shape[-1]])
  products = [
    tf.matmul(
      tf.reshape(padded[:, i : i + rows, j : j + columns], [-1, channels]),
      of_outputs,
      transpose_a=True,
    )
    for i in range(height)
    for j in range(width)
  ]
  return tf.reshape(tf.stack(products), shape)
