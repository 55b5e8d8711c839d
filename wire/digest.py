"""Digest of a log batch: distinguishes logs with equal offsets and epochs.

The digest covers base offset, leader epoch, times and records. So two logs that diverged after a
common beginning (a copied folder) have different digests, unless both appended the same records at
the same offset, in the same epoch, in the same millisecond.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

DIGEST_CHARS: Final = 32


def batch_digest(data: bytes) -> str:
    """Digest of an encoded batch: :data:`DIGEST_CHARS` hexadecimal digits."""
    return blake2b(data, digest_size=DIGEST_CHARS // 2).hexdigest()
