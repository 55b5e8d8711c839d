"""How to install a part of kraft-bridge that is left out by default."""

from __future__ import annotations


def install(*extras: str) -> str:
    """What to type; kraft-bridge is on no package index, so it is installed from a checkout.

    >>> install("spark", "java")
    "in the checkout of kraft-bridge: pip install '.[spark,java]'"
    """
    return f"in the checkout of kraft-bridge: pip install '.[{','.join(extras)}]'"
