"""``kraft-bridge`` as a program: imports next to nothing before Ctrl-C is looked after."""

from __future__ import annotations

from emulator.io import interrupts


def main() -> None:
    """Entry point."""
    interrupts.end_at_once()
    from emulator import cli  # noqa: PLC0415 - what it imports may take long

    cli.main()


if __name__ == "__main__":
    main()
