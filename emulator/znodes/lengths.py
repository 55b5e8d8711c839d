"""How long a text of a znode may be: what a metadata record can hold.

Source: Utf8 strings of the generated records, whose writer refuses more than 0x7fff bytes.
"""

from __future__ import annotations

from typing import Final

from emulator.znodes.errors import ZnodeError

TEXT_BYTES_MAX: Final = 32_767
SHOWN_MAX: Final = 100
"""Characters of a name that an error shows."""


def require_short(path: str, name: str, *texts: str) -> None:
    """Check that a record can hold each of these texts.

    Args:
        path: of the znode.
        name: of what has them; an error shows the beginning of it.
        texts: to check.

    Raises:
        ZnodeError: one of them is longer than :data:`TEXT_BYTES_MAX` in UTF-8.
    """
    if any(len(text.encode()) > TEXT_BYTES_MAX for text in texts):
        why = f"more than {TEXT_BYTES_MAX} bytes, which no metadata record holds"
        raise ZnodeError(path, f"{name[:SHOWN_MAX]}: {why}")
