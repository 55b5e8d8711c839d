"""Verbs of the command line, each in a file or a folder; ``emulator.cli`` lists them."""
