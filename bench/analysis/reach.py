"""Whether a Spark that is named is there, before Spark itself tries for minutes to find out."""

from __future__ import annotations

import re
import socket
from typing import Final
from urllib.parse import urlsplit

from pyspark.errors import PySparkException

MASTER_S: Final = 5.0
"""How long a connection to each address of a master may take."""
CONNECT_S: Final = 15.0
"""How long a Spark Connect server may take to greet."""
_CONNECT_PORT: Final = 15_002


class SparkUnavailableError(Exception):
    """Spark does not start, or a server of it is not reached; the text is one sentence."""


def check_master(master: str) -> None:
    """See whether something listens where a ``spark://`` master should be; others are not checked.

    Raises:
        SparkUnavailableError: nothing listens at any of its addresses.
    """
    if not master.startswith("spark://"):
        return
    problem: Exception = ValueError("no host is named")
    for one in re.findall(r"[^,]+", master.removeprefix("spark://")):
        try:
            host, _, port = one.rpartition(":")
            socket.create_connection((host.strip("[]"), int(port)), MASTER_S).close()
        except (OSError, ValueError, OverflowError) as error:
            problem = error
        else:
            return
    raise SparkUnavailableError(f"{master} cannot be reached: {problem}")


def check_remote(remote: str) -> None:
    """See whether a Spark Connect server greets at ``sc://…``.

    Raises:
        SparkUnavailableError: none does, or the URL is none.
    """
    import grpc  # noqa: PLC0415 - a session without a server does without it
    from pyspark.sql.connect.client.core import (  # noqa: PLC0415 - it imports grpc
        DefaultChannelBuilder,
    )

    try:
        parts = urlsplit(remote)
        # Without its parameters: one may be a token.
        shown = f"{parts.scheme}://{parts.hostname}:{parts.port or _CONNECT_PORT}"
        channel = DefaultChannelBuilder(remote).toChannel()
    except (PySparkException, ValueError) as error:
        # Spark quotes a parameter that it cannot read, such as a token in base64 with its end.
        quotes = any(part in str(error) for part in remote.split(";")[1:] if part)
        why = "write sc://HOST[:PORT][/;KEY=VALUE…], with = in a value as %3D" if quotes else error
        raise SparkUnavailableError(f"no Spark Connect server has this URL: {why}") from error
    try:
        grpc.channel_ready_future(channel).result(CONNECT_S)
    except grpc.FutureTimeoutError as error:
        raise SparkUnavailableError(
            f"{shown} cannot be reached: no Spark Connect server answers within {CONNECT_S:g} s"
        ) from error
    finally:
        channel.close()
