"""Curves and reports of runs."""
