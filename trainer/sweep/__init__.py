"""Sweeps: many runs of one experiment, each with its own gin bindings, which Optuna chooses.

    python -m trainer.sweep --gin_file=gin_configs/digits.gin --sweep_dir=out/sweep
        --sweep_file=gin_configs/sweeps/digits.gin --trials=40 --workers=2

`settings` reads the sweep file. `space` and `grid` describe the varying parameters. `optuna_parts`
makes samplers and pruners. `study` keeps the trials in a database, and `leases` assigns trials to
processes. `engine` is the loop of a process; `trial` is one run in it; `trial_server` starts the
processes of trials; `machine` gives each its share of the cores and GPUs. `report`, `figures` and
`page` show the results.

Layout:

    <sweep_dir>/sweep.db                      the trials (SQLite), unless --storage names another
                                              database
    <sweep_dir>/trials/<number>/              the model_dir of a trial, with two more files:
    <sweep_dir>/trials/<number>/command.txt   the command that runs it by hand
    <sweep_dir>/trials/<number>/log.txt       its output
    <sweep_dir>/trials.csv, best.gin, report.html    written by `python -m trainer.sweep_report`
"""

__all__ = ["main", "page", "report", "report_main", "study"]
