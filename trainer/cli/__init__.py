"""How a command starts and prints, asks other processes, and says what to install."""

__all__ = ["command", "formatting", "installation", "processes", "user_code"]
