"""Compares hardware: the same workloads on each device, timed and priced.

    python -m trainer.compare --gin_file=gin_configs/compare/articles.gin --output=out/compare

`workloads` reads the cases to compare. `runner` measures each case in a process of its own, by
`worker` and `measure`. `results` reads, writes and merges the rows. `summary` computes times,
speed-ups and, by `prices`, costs; `report` shows them. `models` compares the models of two runs
instead.

Layout:

    <output>/results.jsonl    a row for each case on each device, see `results`
    <output>/logs/            what the processes printed
    <output>/times.png        the times to train
"""

__all__ = ["main", "results", "runner", "worker"]
