"""Calls in line: what may append when, what waits, answers, periodic work."""
