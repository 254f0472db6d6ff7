"""What one of many replicas traces."""

import pytest
import tensorflow as tf

from trainer.devices import replica


def _sums(packs, *specs):
  """Returns the shapes of the all-reduces of tensors of these specs, and those of the results."""
  strategy = replica.OneOfMany(8, packs)
  made = []

  @tf.function(input_signature=specs, autograph=False)
  def reduce(*tensors):
    def of_replica():
      context = tf.distribute.get_replica_context()
      made.extend(context.all_reduce("SUM", list(tensors)))

    strategy.run(of_replica)

  operations = reduce.get_concrete_function().graph.get_operations()
  sums = [each.outputs[0].shape.as_list() for each in operations if each.type == "XlaAllReduce"]
  return sums, [each.shape.as_list() for each in made]


SMALL, OTHER = tf.TensorSpec([3, 4]), tf.TensorSpec([5])
SCALAR, BIG = tf.TensorSpec([]), tf.TensorSpec([300, 300])


def test_devices_of_a_cpu_reduce_small_tensors_in_one_piece():
  sums, made = _sums(True, SMALL, BIG, SCALAR, OTHER)
  assert sorted(sums) == [[12 + 1 + 5], [300, 300]]
  assert made == [[3, 4], [300, 300], [], [5]]


def test_each_dtype_is_reduced_in_a_piece_of_its_own():
  sums, made = _sums(True, SMALL, tf.TensorSpec([7], tf.int32), OTHER)
  assert sorted(sums) == [[7], [12 + 5]]
  assert made == [[3, 4], [7], [5]]


@pytest.mark.parametrize("specs", [(SMALL, OTHER), (SMALL, BIG)], ids=["small", "both"])
def test_tpus_reduce_each_tensor(specs):
  sums, _ = _sums(False, *specs)
  assert sums == [spec.shape.as_list() for spec in specs]
