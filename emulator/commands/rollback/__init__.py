"""``kraft-bridge rollback``: input, effects, output; ``emulator.operations.rollback`` decides."""
