"""Bodies of control requests, encoded once for all brokers that get the same.

Requests of one change differ in the broker epoch alone, which has a fixed place and length.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from emulator.net.control import EPOCH_BYTES, ControlRequest, broker_epoch_at, names_the_same
from wire import codec
from wire.frame import RequestHeader, encode_head
from wire.schema import replace

BYTES_MAX: Final = 2 * 1024 * 1024
"""Of a body that is kept: about 20,000 partitions. Longer ones are encoded for each broker."""


class _Encoded(msgspec.Struct, frozen=True):
    request: ControlRequest
    version: int
    body: bytes

    def matches(self, version: int, request: ControlRequest) -> bool:
        """Whether a request has this body but for the broker epoch."""
        own = self.request
        return (
            version == self.version
            and names_the_same(own, request)
            and own.controller_epoch == request.controller_epoch
            and own.controller_id == request.controller_id
            and own.is_kraft_controller == request.is_kraft_controller
            and getattr(own, "type", None) == getattr(request, "type", None)
        )


class Bodies:
    """Keeps the newest body of each API. ``encoded_count``: how many were encoded."""

    def __init__(self) -> None:
        self.encoded_count = 0
        self._newest: dict[int, _Encoded] = {}

    def forget(self) -> None:
        """Keep nothing: no control request is sent any more."""
        self._newest.clear()

    def encode(self, header: RequestHeader, request: Any) -> bytes:
        """Header and body of a control request, without the length.

        Args:
            header: of the request.
            request: what it names must not be changed any more.

        Raises:
            EncodeError: the version cannot carry it.
        """
        at = broker_epoch_at(header.api_key, header.api_version)
        kept = self._newest.get(header.api_key)
        if at is not None and kept is not None and kept.matches(header.api_version, request):
            broker_epoch: int = request.broker_epoch
            epoch = broker_epoch.to_bytes(EPOCH_BYTES, "big", signed=True)
            body = kept.body[:at] + epoch + kept.body[at + EPOCH_BYTES :]
        else:
            body = codec.encode(request, header.api_version)
            self.encoded_count += 1
            self._newest.pop(header.api_key, None)
            if at is not None and len(body) <= BYTES_MAX:
                # A copy: the type of a request that is sent again may be changed.
                self._newest[header.api_key] = _Encoded(replace(request), header.api_version, body)
        return encode_head(header) + body
