"""Questions of speed, each with one script.

Every figure is a ratio from one run with both sides in turn.
"""
