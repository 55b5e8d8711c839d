"""A short name for a batch of the log: tells two logs apart that agree in offsets and epochs.

What is digested holds base offset, leader epoch, times and records. So two logs that went different
ways from a common beginning (a copied folder) differ, unless both appended the same records at the
same offset, in the same epoch, in the same millisecond.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

DIGEST_CHARS: Final = 32


def batch_digest(data: bytes) -> str:
    """Digest of a batch as it stands in the log: :data:`DIGEST_CHARS` hexadecimal digits."""
    return blake2b(data, digest_size=DIGEST_CHARS // 2).hexdigest()
