"""Verbs of the command line that load, measure and show: ``emulator.cli`` finds them."""
