"""Ask a broker for its live brokers: "started" in its log is not yet "of use to a client"."""

import socket
import struct

from emulator.servers.ports import HOST

_METADATA = 3


def known_to(port: int) -> tuple[frozenset[int], int]:
    """Broker ids and controller id of a broker's Metadata response, version 1, no topics asked.

    Args:
        port: of a PLAINTEXT listener on the loopback address.

    Returns:
        No brokers and controller -1 while it does not answer.

    Source: MetadataRequest.json, MetadataResponse.json, Kafka 3.4-3.9.
    """
    request = struct.pack(">hhi", _METADATA, 1, 0) + struct.pack(">h", -1) + struct.pack(">i", 0)
    try:
        with socket.create_connection((HOST, port), 5) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            with connection.makefile("rb") as answer:
                (size,) = struct.unpack(">i", answer.read(4))
                return _parse(answer.read(size))
    except (OSError, struct.error):
        return frozenset(), -1


def _parse(frame: bytes) -> tuple[frozenset[int], int]:
    count, position = struct.unpack_from(">i", frame, 4)[0], 8
    brokers = set()
    for _ in range(count):
        broker, host_length = struct.unpack_from(">ih", frame, position)
        position += 6 + host_length + 4
        (rack_length,) = struct.unpack_from(">h", frame, position)
        position += 2 + max(rack_length, 0)
        brokers.add(broker)
    return frozenset(brokers), struct.unpack_from(">i", frame, position)[0]
