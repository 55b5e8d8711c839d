"""``kraft-bridge rollback``: input, effects and output; ``emulator.rollback`` decides."""
