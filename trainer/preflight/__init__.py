"""Compiles the steps of an experiment for a TPU on a machine that has none.

    python -m trainer.preflight --gin_file=gin_configs/cifar10_cnn.gin --topology=v3-8

`bindings` reads what gin binds to `run`. `lower` traces the step of one replica among N and turns
it into HLO. `compiler` gives the HLO to the TPU compiler in a process of its own. `memory` and
`hlo` read what the compiler wrote. `check` runs these stages in order, `report` and `page` show the
results.
"""

__all__ = ["main", "prices"]
