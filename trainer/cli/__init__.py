"""How a command starts and prints, asks other processes, and says what to install."""

__all__ = [
  "command",
  "formatting",
  "installation",
  "json_lines",
  "notices",
  "processes",
  "run_flags",
  "user_code",
]
