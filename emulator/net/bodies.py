"""Reads the bodies of requests that a listener offers; long ones in slices."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from emulator.net.control import broker_epoch_at
from emulator.net.reply import API_VERSIONS
from emulator.seam import Slices
from wire import messages as m
from wire.errors import DecodeError
from wire.frame import SLICED_BYTES, RequestHeader, decode_body, decoding_body, split_request


class RequestBodies:
    """See the module's docstring.

    ``entries_max``: API key -> most entries of all arrays in one request, set by the owner; without
    one, any number. ``decoder``: reads bodies as :func:`decode_body` does, which is used without
    one; what it reads of control requests is not read in slices.

    Args:
        advertised: API key -> lowest and highest version.
    """

    def __init__(self, advertised: Mapping[int, tuple[int, int]]) -> None:
        self._advertised = advertised
        self.entries_max: Mapping[int, int] = {}
        self.decoder: Callable[..., object] | None = None

    def read(self, header: RequestHeader, body: bytes) -> object:
        """The message; a default ApiVersionsRequest of a version that is not known.

        Raises:
            DecodeError: it is not offered, or the bytes are not one.
        """
        key = header.api_key
        if self._offers(header):
            decode = self.decoder or decode_body
            return decode(header, body, trailing=True, entries_max=self.entries_max.get(key))
        if key == API_VERSIONS:
            return m.ApiVersionsRequest()
        why = "this listener does not offer this API and version"
        raise DecodeError(f"request {key}", header.api_version, "header", 0, why)

    def reading(self, frame: bytes) -> Slices[object] | None:
        """Reads the message of a long frame in slices; None: it is to be read at once."""
        if len(frame) < SLICED_BYTES:
            return None
        header, body = split_request(frame)
        key = header.api_key
        shared = self.decoder and broker_epoch_at(key, header.api_version) is not None
        if shared or not self._offers(header):
            return None
        return decoding_body(header, body, trailing=True, entries_max=self.entries_max.get(key))

    def _offers(self, header: RequestHeader) -> bool:
        low, high = self._advertised.get(header.api_key, (0, -1))
        return low <= header.api_version <= high
