"""Sweeps: many runs of one experiment, each with gin bindings of its own, chosen by Optuna.

    python -m trainer.sweep --gin_file=gin_configs/digits.gin \\
        --sweep_file=gin_configs/sweeps/digits.gin --sweep_dir=out/sweep --trials=40 --workers=2

The order of things: `settings` reads the sweep file, `space` and `grid` say what varies,
`optuna_parts` names samplers and pruners; `study` keeps the trials in a database and `leases` who
works on which; `engine` is the loop, `trial` one run in it, `server` the process that starts them,
`machine` what they get of the machine; `report`, `figures` and `page` tell.

Layout:

    <sweep_dir>/sweep.db                 the trials (SQLite), where --storage names no other
                                         database
    <sweep_dir>/trials/<number>/         the model_dir of a trial, as of any run, and beside what
                                         that has:
    <sweep_dir>/trials/<number>/command.txt   the command that runs it by hand
    <sweep_dir>/trials/<number>/log.txt       what it said
    <sweep_dir>/trials.csv, best.gin, report.html    what `python -m trainer.sweep_report` writes
"""

__all__ = ["main", "page", "report", "study"]
