from trainer.preflight import hlo

PROGRAM = """HloModule a
%region {
  %custom-call.1 = f32[] custom-call(%x), custom_call_target="inner"
}

ENTRY %main {
  %custom-call.2 = u32[]{:T(256)} custom-call(), custom_call_target="GetReplicaId"
  %fusion.1 = f32[8]{0} fusion(%p), backend_config={"estimated_cycles":"120"}
  %all-reduce.6 = (f32[3,3,2,4]{3,2,1,0:T(2,128)}, f32[4]{0}, /*index=2*/bf16[5]{0:T(256)}) all-reduce(%a, %b, %c), replica_groups={{0,1,2,3,4,5,6,7}}
  %get-tuple-element.34 = f32[4]{0:T(256)} get-tuple-element(%all-reduce.6), index=1
  ROOT %all-reduce.7 = f32[]{:T(256)} all-reduce(%d), replica_groups=[1,8]<=[8], to_apply=%region, backend_config={"estimated_cycles":"30"}
}
"""


def test_all_reduces_are_counted_with_their_bytes():
  found = hlo.all_reduces(PROGRAM)
  assert (found.count, found.replicas) == (2, 8)
  assert found.sizes == (3 * 3 * 2 * 4 * 4 + 4 * 4 + 5 * 2, 4)
  assert found.bytes == sum(found.sizes)


def test_program_without_any():
  assert hlo.all_reduces("ENTRY %main {}\n") == hlo.AllReduces((), 0)


def test_only_the_main_computation_counts():
  assert hlo.custom_calls(PROGRAM) == 1
