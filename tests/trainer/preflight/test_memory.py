import pytest

from trainer.cli import formatting
from trainer.preflight import memory

# As libtpu 0.0.51 writes it, shortened.
LISTING = memory.Listing(
  hlo="""
  %fusion.5 = f32[32,64,64,32]{3,0,2,1:T(8,128)} fusion(%a), kind=kOutput, metadata={op_name="model_fn/conv2d_1/convolution;reshape.25"}
  %fusion.8 = f32[32,10]{0,1:T(8,128)} fusion(%b), kind=kLoop, metadata={op_name="XLA_Args" source_file="x.py"}
""",
  buffers="""BufferAssignment:
allocation 0: size 12288, color 6, page 0, preallocated-temp:
 value: <641 copy.60 @6> (size=1024,offset=1024): f32[]{:T(256)S(6)}
allocation 2: size 3145728, page 0, parameter 0, shape |f32[32,64,64,3]| at ShapeIndex {}:
 value: <616 XLA_Args.3 @0> (size=3145728,offset=0): f32[32,64,64,3]{2,1,3,0:T(8,128)}
allocation 20: size 143212544, page 0, preallocated-temp:
 value: <617 fusion.5{} @0> (size=1024,offset=22394): (f32[32]{0:T(256)}, f32[32,64,64,32]{3,0,2,1:T(8,128)})
 value: <618 fusion.5{1} @0> (size=67108864,offset=0): f32[32,64,64,32]{3,0,2,1:T(8,128)}
 value: <619 fusion.6 @0> (size=67108864,offset=67108864): f32[32,64,64,32]{3,0,2,1:T(8,128)}
 value: <620 fusion.7 @0> (size=67108864,offset=67108864): f32[32,64,64,32]{3,0,2,1:T(8,128)}
 value: <621 fusion.8 @0> (size=8192,offset=99): f32[32,10]{0,1:T(8,128)}
""",
  allocated_bytes=146937856,
)


def test_memory_is_what_all_allocations_of_the_main_memory_take():
  assert memory.allocated_bytes(LISTING.buffers) == 3145728 + 143212544
  older = LISTING.buffers.replace(", page 0", "")  # as libtpu 0.0.30 writes it
  assert memory.allocated_bytes(older) == 3145728 + 143212544


def test_buffers_of_one_kind_are_counted_by_their_places():
  first, second, third = memory.largest(LISTING)
  assert (str(first), first.size, first.count, first.op) == (
    "f32[32,64,64,32]",
    2**26,
    2,
    "model_fn/conv2d_1/convolution",
  )
  assert (str(second), second.op) == ("f32[32,64,64,3]", "argument")
  assert (str(third), third.op) == ("f32[32,10]", "copy of an argument")


@pytest.mark.parametrize(
  "dtype, size",
  [("f32", 4), ("bf16", 2), ("pred", 1), ("s64", 8), ("u8", 1), ("c64", 8), ("f8e4m3fn", 1)],
)
def test_dtype_bytes(dtype, size):
  assert memory.dtype_bytes(dtype) == size


def test_sizes_for_a_reader():
  assert [formatting.memory_size(size) for size in (100, 2**20, 3 * 2**30)] == [
    "0.1 KiB",
    "1.00 MiB",
    "3.00 GiB",
  ]
