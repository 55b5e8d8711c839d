"""Kafka's text form of a uuid: base64url, 22 characters, no padding."""

from __future__ import annotations

import base64
import binascii


def uuid_text(uuid: bytes) -> str:
    """Show 16 bytes as Kafka does.

    >>> uuid_text(bytes(15) + bytes([1]))
    'AAAAAAAAAAAAAAAAAAAAAQ'
    """
    if len(uuid) != 16:
        raise ValueError(f"a uuid has 16 bytes, not {len(uuid)}")
    return base64.urlsafe_b64encode(uuid).decode().rstrip("=")


def uuid_from_text(text: str) -> bytes:
    """Read the form that ``uuid_text`` writes.

    Raises:
        ValueError: not 22 characters of the base64url alphabet, or bits after the 128th are set.

    >>> uuid_from_text("AAAAAAAAAAAAAAAAAAAAAQ").hex()
    '00000000000000000000000000000001'
    """
    if len(text) != 22:
        raise ValueError(f"{text!r} is no uuid: it has {len(text)} characters, not 22")
    try:
        uuid = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"{text!r} is no uuid: {error}") from None
    if uuid_text(uuid) != text:
        raise ValueError(
            f"{text!r} is no uuid: its bits beyond 128 are not 0, as in {uuid_text(uuid)}"
        )
    return uuid
