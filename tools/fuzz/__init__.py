"""Frames of every API and version, drawn from a seed, at real processes of ours."""
