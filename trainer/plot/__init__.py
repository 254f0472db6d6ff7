"""Learning curves and reports of runs, as pictures and as HTML pages."""

__all__ = ["curves", "html_page", "svg"]
