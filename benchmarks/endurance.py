"""Checks whether a training stays as fast and as small.

It compares the digits at step 100,000 with the digits at step 1,000.

    python -m benchmarks.run endurance

Two trainings take turns; one has done 99,000 more steps before its first turn. Memory is the older
one's at the end of each 1,000 steps, against its memory at step 1,000.
"""

import dataclasses

from benchmarks import cases, results, sides, train

LATE, EARLY = 100_000, 1_000


def measure(rounds=10, late=LATE):
  """Returns two rows: throughput and memory."""
  case = dataclasses.replace(cases.CASES["digits"], steps=1000)
  slices = sides.alternate(
    {
      name: sides.Side(train.octet, {"case": case, "precision": "float32", "age": age})
      for name, age in (("octet", late), ("early", EARLY))
    },
    rounds,
    warm=0,
  )
  title = f"{case.title}, step {late:,}"
  growth, note = (), sides.failure(slices, "octet", "early")
  if not note:
    growth = tuple(
      late_ / early
      for late_, early in zip(slices["octet"].resident, slices["early"].resident, strict=True)
    )
    note = "{:,.0f} and {:,.0f} MiB at the end".format(
      *(slices[side].resident[-1] / 2**20 for side in ("octet", "early"))
    )
  return [
    results.Row(
      "endurance",
      title,
      f"step {EARLY:,}: throughput",
      sides.ratios(slices, "early"),
      at_least=0.98,
      note=note,
    ),
    results.Row("endurance", title, f"step {EARLY:,}: memory", growth, at_most=1.05, note=note),
  ]
