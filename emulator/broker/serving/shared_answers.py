"""Answers that many clients get alike, made and encoded once for all brokers of a process.

Every client asks for all topics now and then, and between two changes of the metadata the answer is
the same but for the controller that it names.
"""

from __future__ import annotations

from typing import Any, Final

from emulator.seam import Kept, Same, Slices
from wire.frame import RequestHeader, encoding_response

KEPT_MAX: Final = 8
"""Answers of this kind that are kept, in a process."""


_ENCODED: Final = Kept[bytes](KEPT_MAX)


def sharing(header: RequestHeader, response: Any) -> Slices[bytes]:
    """Header and body of a response that is kept, in slices; it must not be changed any more.

    Args:
        header: of the request.
        response: the same object for every request that it answers.

    Raises:
        EncodeError: the version cannot carry it.
    """
    key, version = header.api_key, header.api_version
    encoded = yield from _ENCODED.made(
        (Same(response), key, version), lambda: encoding_response(key, version, 0, response)
    )
    return header.correlation_id.to_bytes(4, "big", signed=True) + encoded[4:]
