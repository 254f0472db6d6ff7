"""tf.contrib.slim.tfexample_decoder: serialized Examples as named items.

decoder = TFExampleDecoder(keys_to_features, {"image": Image(), "label": Tensor("label")})
image, label = decoder.decode(serialized, ["image", "label"])
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

v1 = tf.compat.v1


class ItemHandler:
  """Makes an item of features.

  Args:
    keys: name of a feature, or list of names.
  """

  def __init__(self, keys: Any):
    self._keys = [keys] if isinstance(keys, str) else list(keys)

  @property
  def keys(self) -> list[str]:
    return self._keys

  def tensors_to_item(self, keys_to_tensors: Mapping[str, Any]) -> Any:
    """Returns the item, from a dict of name → tensor."""
    raise NotImplementedError


class ItemHandlerCallback(ItemHandler):
  """An item that a function makes from the dict of its features."""

  def __init__(self, keys: Any, func: Callable[[dict[str, Any]], Any]):
    super().__init__(keys)
    self._func = func

  def tensors_to_item(self, keys_to_tensors: Mapping[str, Any]) -> Any:
    return self._func({key: keys_to_tensors[key] for key in self.keys})


class Tensor(ItemHandler):
  """A dense feature, unchanged or with a shape: a given shape, or the shape in other features.

  Raises:
    ValueError: shape_keys and shape are both given.
  """

  def __init__(
    self, tensor_key: str, shape_keys: Any = None, shape: Any = None, default_value: Any = 0
  ):
    if shape_keys and shape is not None:
      raise ValueError("Cannot specify both shape_keys and shape parameters.")
    self._tensor_key, self._shape, self._default = tensor_key, shape, default_value
    self._shape_keys = [shape_keys] if isinstance(shape_keys, str) else list(shape_keys or [])
    super().__init__([tensor_key, *self._shape_keys])

  def tensors_to_item(self, keys_to_tensors: Mapping[str, Any]) -> tf.Tensor:
    tensor, shape = keys_to_tensors[self._tensor_key], self._shape
    if self._shape_keys:
      shape = tf.reshape(tf.stack([_dense(keys_to_tensors[k]) for k in self._shape_keys]), [-1])
    if isinstance(tensor, tf.SparseTensor):
      tensor = tensor if shape is None else tf.sparse.reshape(tensor, shape)
      return tf.sparse.to_dense(tensor, "" if tensor.dtype == tf.string else self._default)
    return tensor if shape is None else tf.reshape(tensor, shape)


class LookupTensor(Tensor):
  """A feature, looked up in a table."""

  def __init__(self, tensor_key: str, table: Any, *args: Any, **kwargs: Any):
    super().__init__(tensor_key, *args, **kwargs)
    self._table = table

  def tensors_to_item(self, keys_to_tensors: Mapping[str, Any]) -> tf.Tensor:
    return self._table.lookup(super().tensors_to_item(keys_to_tensors))


class BackupHandler(ItemHandler):
  """An item, or another item if it is empty."""

  def __init__(self, handler: ItemHandler, backup: ItemHandler):
    super().__init__([*handler.keys, *backup.keys])
    self._handler, self._backup = handler, backup

  def tensors_to_item(self, keys_to_tensors: Mapping[str, Any]) -> tf.Tensor:
    item = self._handler.tensors_to_item(keys_to_tensors)
    return tf.cond(
      tf.equal(tf.reduce_prod(tf.shape(item)), 0),
      lambda: self._backup.tensors_to_item(keys_to_tensors),
      lambda: item,
    )


class BoundingBox(ItemHandler):
  """Boxes [number, 4] from four features of sides, by default ymin, xmin, ymax and xmax."""

  def __init__(self, keys: Sequence[str] | None = None, prefix: str = ""):
    sides = list(keys or ("ymin", "xmin", "ymax", "xmax"))
    if len(sides) != 4:
      raise ValueError(f"BoundingBox expects 4 keys but got {len(sides)}")
    super().__init__([prefix + side for side in sides])

  def tensors_to_item(self, keys_to_tensors: Mapping[str, Any]) -> tf.Tensor:
    return tf.stack([tf.reshape(_dense(keys_to_tensors[key]), [-1]) for key in self.keys], axis=1)


class Image(ItemHandler):
  """An encoded image, or several images if the feature has several values.

  Args:
    image_key: the feature with its bytes.
    format_key: the feature that says "raw" if the bytes are values of `dtype` instead of a file;
      otherwise the bytes tell the format.
    shape: the image's shape; raw images need it.
    channels: 1 for gray or 3 for colors.
    dtype: the image's dtype.
    repeated: whether the feature has several images.
    dct_method: how to decode JPEGs.
  """

  def __init__(
    self,
    image_key: str | None = None,
    format_key: str | None = None,
    shape: Any = None,
    channels: int = 3,
    dtype: Any = tf.uint8,
    repeated: bool = False,
    dct_method: str = "",
  ):
    self._image_key = image_key or "image/encoded"
    self._format_key = format_key or "image/format"
    super().__init__([self._image_key, self._format_key])
    self._shape, self._channels, self._dtype = shape, channels, tf.as_dtype(dtype)
    self._repeated, self._dct_method = repeated, dct_method

  def tensors_to_item(self, keys_to_tensors: Mapping[str, Any]) -> tf.Tensor:
    encoded, kind = (_dense(keys_to_tensors[key]) for key in self.keys)
    if self._repeated:
      return tf.map_fn(lambda one: self._decode(one, kind), encoded, self._dtype)
    return self._decode(encoded, kind)

  def _decode(self, encoded: tf.Tensor, kind: tf.Tensor) -> tf.Tensor:
    encoded, kind = tf.reshape(encoded, []), tf.reshape(kind, [])

    def raw() -> tf.Tensor:
      return tf.reshape(tf.io.decode_raw(encoded, self._dtype), self._shape or [-1])

    def jpeg() -> tf.Tensor:
      image = tf.io.decode_jpeg(encoded, self._channels, dct_method=self._dct_method)
      return tf.cast(image, self._dtype)

    def other() -> tf.Tensor:
      image = tf.io.decode_image(encoded, self._channels, expand_animations=False)
      return tf.cast(image, self._dtype)

    image = tf.cond(
      tf.reduce_any(tf.equal(kind, ["raw", "RAW"])),
      raw,
      lambda: tf.cond(tf.io.is_jpeg(encoded), jpeg, other),
    )
    image.set_shape(self._shape if self._shape is not None else [None, None, self._channels])
    return image


class TFExampleDecoder:
  """Parses a serialized Example into items.

  Args:
    keys_to_features: dict of name → FixedLenFeature or VarLenFeature.
    items_to_handlers: dict of an item's name → ItemHandler.
  """

  def __init__(
    self, keys_to_features: Mapping[str, Any], items_to_handlers: Mapping[str, ItemHandler]
  ):
    self._features, self._handlers = keys_to_features, items_to_handlers

  def list_items(self) -> list[str]:
    """Returns the names of the items."""
    return list(self._handlers)

  def decode(self, serialized_example: tf.Tensor, items: Sequence[str] | None = None) -> list[Any]:
    """Returns an Example's items, in the order of `items`; by default all items."""
    parsed = v1.parse_single_example(serialized_example, dict(self._features))
    return [
      self._handlers[item].tensors_to_item(parsed)
      for item in (self._handlers if items is None else items)
    ]


def _dense(tensor: Any) -> tf.Tensor:
  return tf.sparse.to_dense(tensor) if isinstance(tensor, tf.SparseTensor) else tensor
