"""Compares the two stores independently, with its own code."""
