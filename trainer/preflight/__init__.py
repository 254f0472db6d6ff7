"""Compiles the steps of an experiment for a TPU on a machine that has none.

    python -m trainer.preflight --gin_file=gin_configs/cifar10_cnn.gin --topology=v3-8

`bindings` reads what gin binds to `run`. `lower` traces the step of one of N replicas and lowers it
to HLO. `compiler` compiles the HLO with the TPU compiler, in a process of its own. `memory` and
`hlo` read the compiler's output. `check` runs these stages in order; `report` and `page` show the
results.
"""

__all__ = ["main", "prices"]
