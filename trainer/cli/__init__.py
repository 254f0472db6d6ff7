"""Starts commands, prints their output, calls other processes, and names missing packages."""

__all__ = [
  "command",
  "formatting",
  "installation",
  "json_lines",
  "kept_process",
  "notices",
  "processes",
  "run_flags",
  "user_code",
]
