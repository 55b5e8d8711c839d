"""``kraft-bridge preflight``: input and output; ``emulator.operations.preflight`` has the rules."""
