"""Control requests that a controller sends alike to brokers of one process, decoded once.

An UpdateMetadata is the same for every broker, a LeaderAndIsr for all that host the same
partitions, but for the broker epoch. So a request is known by its content: all bytes of its body
but those of the epoch. Brokers that get something else (from another controller, in another
version, in another order) have requests of their own.

What brokers make of the decoded request may be kept beside it; neither is changed any more.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar

from emulator.net.control import EPOCH_BYTES, ControlRequest, broker_epoch_at, names_the_same
from emulator.seam import Slices, whole
from wire.frame import RequestHeader, decoding_body
from wire.schema import replace

BYTES_MAX: Final = 8 * 1024 * 1024
"""Of the bodies that are kept: about 80,000 partitions, which decoded take far more."""
REQUESTS_MAX: Final = 64
"""Requests that are kept; brokers of a process get the same within moments."""

V = TypeVar("V")
_Key = tuple[int, int, bytes, bytes, int | None]


class _Kept:
    """A decoded request, and what was made of it."""

    __slots__ = ("made", "message", "size")

    def __init__(self, message: ControlRequest, size: int) -> None:
        self.message = message
        self.size = size
        self.made: Any = None


class SharedControl:
    """See the module's docstring. ``decoded_total``: bodies that were decoded, by API key."""

    def __init__(self, bytes_max: int = BYTES_MAX) -> None:
        self.decoded_total: dict[int, int] = {}
        self.made_total = 0
        """How often something was made of a request."""
        self.kept_bytes = 0
        self._bytes_max = bytes_max
        self._kept: OrderedDict[_Key, _Kept] = OrderedDict()
        self._decoding: dict[_Key, Slices[Any]] = {}
        """Of long bodies: whoever waits for one does the next slice."""
        self._by_topics: dict[int, _Kept] = {}
        """By the identity of the list of topics, which every copy of a request has."""

    def decode(
        self,
        header: RequestHeader,
        body: bytes,
        *,
        trailing: bool = False,
        entries_max: int | None = None,
    ) -> Any:
        """As :func:`wire.frame.decode_body`; what it returns must not be changed.

        Raises:
            DecodeError: the API or version is unknown, or the bytes are not one.
        """
        return whole(self.decoding(header, body, trailing=trailing, entries_max=entries_max))

    def decoding(
        self,
        header: RequestHeader,
        body: bytes,
        *,
        trailing: bool = False,
        entries_max: int | None = None,
    ) -> Slices[Any]:
        """The same, of a long body in slices; brokers that get the same one do them together."""
        at = broker_epoch_at(header.api_key, header.api_version)
        reading = partial(decoding_body, trailing=trailing, entries_max=entries_max)
        if at is None or len(body) < at + EPOCH_BYTES or not trailing:
            return (yield from reading(header, body))
        end = at + EPOCH_BYTES
        key = (header.api_key, header.api_version, body[:at], body[end:], entries_max)
        epoch = int.from_bytes(body[at:end], "big", signed=True)
        while (known := self._kept.get(key)) is None:
            slices = self._decoding.pop(key, None) or reading(header, body)
            try:
                next(slices)
            except StopIteration as done:
                message = replace(done.value, broker_epoch=epoch)
                count = self.decoded_total.get(header.api_key, 0)
                self.decoded_total[header.api_key] = count + 1
                self._keep(key, _Kept(message, len(body)))
                return message
            self._decoding[key] = slices
            yield
        self._kept.move_to_end(key)
        return replace(known.message, broker_epoch=epoch)

    def made_of(self, request: ControlRequest, make: Callable[[Any], V]) -> V:
        """What ``make`` makes of a request, made once for all brokers that get the same.

        Args:
            request: of :meth:`decode`, or any other one.
            make: depends on nothing but the topics, brokers and leaders that it names. One kind of
                request is always given the same function.
        """
        known = self._by_topics.get(id(request.topic_states))
        if known is None or not names_the_same(known.message, request):
            return make(request)
        if known.made is None:
            known.made = make(request)
            self.made_total += 1
        made: V = known.made
        return made

    def _keep(self, key: _Key, kept: _Kept) -> None:
        if kept.size > self._bytes_max:
            return
        self._kept[key] = kept
        self._by_topics[id(kept.message.topic_states)] = kept
        self.kept_bytes += kept.size
        while self.kept_bytes > self._bytes_max or len(self._kept) > REQUESTS_MAX:
            _, old = self._kept.popitem(last=False)
            self._by_topics.pop(id(old.message.topic_states), None)
            self.kept_bytes -= old.size
