"""Compares hardware: the same workloads on each device, timed, priced and drawn.

    python -m trainer.compare --gin_file=gin_configs/compare/articles.gin --output=out/compare

`workloads` reads what is compared. `runner` has each case measured in a process of its own, by
`worker` and `measure`. `estimates` asks `trainer.preflight` about TPUs that are not there.
`results` reads, writes and merges the rows. `prices` and `published` have the data that come with
Octet. `summary` computes what the report says: times, costs, speed-ups, the cheapest and the
fastest. `advice` puts it in words; `figures` and `report` show it. `models` compares the models of
two runs instead.

Layout:

    <output>/results.jsonl               a row for each case on each device, see `results`
    <output>/logs/                       what the processes printed
    <output>/report.html, results.csv, *.png
"""

__all__ = ["main", "results", "runner", "worker"]
