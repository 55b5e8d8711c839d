"""``kraft-bridge preflight``: files and a tree in, a report out; ``emulator.preflight`` judges."""
