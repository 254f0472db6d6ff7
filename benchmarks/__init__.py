"""Questions of speed, each answered by one script.

Every figure is a ratio from one run in which both sides alternate.
"""
