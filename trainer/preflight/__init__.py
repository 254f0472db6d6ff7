"""Compiles an experiment's steps for a real TPU on a machine that has none, before anyone pays for
one.

    python -m trainer.preflight --gin_file=gin_configs/cifar10_cnn.gin --topology=v3-8

The order of things: `bindings` reads what gin binds to `run`, `lower` traces one replica's step
among N and makes HLO of it, `compiler` hands that to the TPU compiler in a process of its own,
`memory` and `hlo` read what it wrote, `check` goes through the stages, `report` and `html` tell.
"""

__all__ = ["main", "prices"]
