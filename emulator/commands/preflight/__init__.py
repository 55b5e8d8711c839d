"""``kraft-bridge preflight``: input and output; ``emulator.preflight`` has the rules."""
