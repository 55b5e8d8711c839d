"""Calls of Python libraries, each run as a process of its own: one of them needs another venv."""
