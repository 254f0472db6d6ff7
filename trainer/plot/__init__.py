"""Learning curves and reports of runs, as pictures and as HTML pages."""

__all__ = ["curves", "evaluation_charts", "html_page", "svg"]
