"""Learning curves and reports of runs, as pictures and as HTML pages."""

__all__ = ["curves", "evaluation_charts", "html_page", "run_report", "runs_report", "svg"]
