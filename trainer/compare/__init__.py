"""Compares hardware: the same workloads on each device, timed, priced and drawn.

    python -m trainer.compare --gin_file=gin_configs/compare/articles.gin --output=out/compare

`workloads` reads the cases to compare. `runner` measures each case in a process of its own, by
`worker` and `measure`. `estimates` asks `trainer.preflight` about absent TPUs. `results` reads,
writes and merges the rows. `prices` and `published` hold the data that come with Octet. `summary`
computes the report's figures: times, costs, speed-ups, the cheapest and the fastest. `advice` puts
them in words; `figures` and `report` show them. `models` compares the models of two runs instead.

Layout:

    <output>/results.jsonl               a row for each case on each device, see `results`
    <output>/logs/                       what the processes printed
    <output>/report.html, results.csv, *.png
"""

__all__ = ["main", "results", "runner", "worker"]
