"""Files on any file system: read and written whole, with another try where one fails."""

__all__ = ["file_locks", "files", "json_form", "local_files", "storage"]
