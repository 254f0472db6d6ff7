"""Reads and writes whole files on any file system, with retries."""

__all__ = ["file_locks", "files", "json_form", "local_files", "paths", "storage"]
