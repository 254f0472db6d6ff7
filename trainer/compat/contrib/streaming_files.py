"""tf.contrib.tpu.StreamingFilesDataset, without the TPU's network."""

from collections.abc import Callable

import tensorflow as tf

_READERS = {
  "tfrecord": tf.data.TFRecordDataset,
  "text": tf.data.TextLineDataset,
  "textline": tf.data.TextLineDataset,
}


def streaming_files_dataset(
  files: str | tf.data.Dataset,
  filetype: str | Callable[[tf.Tensor], tf.data.Dataset] | None = None,
  file_reader_job: str | None = None,
  worker_job: str | None = None,
  num_epochs: int | None = None,
  filename_shuffle_buffer_size: int | bool | None = None,
  num_parallel_reads: int | None = None,
  batch_transfer_size: int | bool | None = None,
  sloppy: bool = True,
) -> tf.data.Dataset:
  """Returns the records of several files in turn.

  Args:
    files: a pattern, or a dataset of names.
    filetype: "tfrecord" (the default), "text", or a function of a name that returns a dataset.
    file_reader_job, worker_job, batch_transfer_size: no effect: this machine reads the files.
    num_epochs: None: without end.
    filename_shuffle_buffer_size: the buffer that shuffles the names; None for 4096, 0 for none.
    num_parallel_reads: how many files are open; None for 8.
    sloppy: whether a slow file may lose its turn.

  Raises:
    ValueError: the filetype is another one.
  """
  del file_reader_job, worker_job, batch_transfer_size
  filetype = filetype or "tfrecord"
  reader = filetype if callable(filetype) else _READERS.get(filetype)
  if reader is None:
    raise ValueError(f"StreamingFilesDataset(filetype={filetype!r}): expected {[*_READERS]}.")
  names = tf.data.Dataset.list_files(files) if isinstance(files, str) else files
  size = 4096 if filename_shuffle_buffer_size is None else filename_shuffle_buffer_size
  names = names.shuffle(size) if size else names
  interleave = tf.data.experimental.parallel_interleave(
    reader, cycle_length=num_parallel_reads or 8, sloppy=sloppy
  )
  return names.apply(interleave).repeat(num_epochs)
