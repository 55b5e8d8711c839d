"""``kraft-bridge`` as a program: imports next to nothing before Ctrl-C is looked after."""

from __future__ import annotations

from emulator.io import interrupts


def main() -> None:
    """Entry point."""
    interrupts.end_at_once()
    # By name: the command line stands above this package, and what it imports may take long.
    __import__("emulator.cli").cli.main()


if __name__ == "__main__":
    main()
