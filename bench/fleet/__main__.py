"""``python -m bench.fleet``: stand-in brokers until SIGTERM or Ctrl-C."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys

from kazoo.client import KazooClient

from bench.fleet.stand_in import StandIn
from bench.fleet.znodes import announce
from bench.load.connection import address_of

_SESSION_S = 30.0


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def _serve(brokers: list[StandIn], client: KazooClient) -> None:
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    for broker in brokers:
        await broker.listen()
        await asyncio.to_thread(announce, client, broker.broker_id, broker.port)
    _say(f"announced {len(brokers)} brokers")
    async with asyncio.TaskGroup() as tasks:
        sessions = [tasks.create_task(broker.attend()) for broker in brokers]
        await ended.wait()
        for session in sessions:
            session.cancel()
    for broker in brokers:
        await broker.close()
        _say(f"broker {broker.broker_id}: received {dict(broker.received)}")


def main() -> int:
    """Create the znodes, listen, and stay registered until the end."""
    parser = argparse.ArgumentParser(prog="python -m bench.fleet", description=__doc__)
    parser.add_argument("--zk", required=True, help="connect string, with its chroot")
    parser.add_argument("--controller", required=True, help="host:port, may be started later")
    parser.add_argument("--cluster-id", required=True, help="base64url, as in /cluster/id")
    parser.add_argument("--ports", required=True, help="one per broker, comma separated")
    parser.add_argument("--release", default="3.9", help="whose ApiVersions to answer")
    options = parser.parse_args()
    ports = [int(port) for port in options.ports.split(",")]
    brokers = [
        StandIn(
            broker_id,
            port,
            options.release,
            controller=address_of(options.controller),
            cluster_id=options.cluster_id,
            say=_say,
        )
        for broker_id, port in enumerate(ports)
    ]
    client = KazooClient(hosts=options.zk, timeout=_SESSION_S)
    client.start()
    try:
        asyncio.run(_serve(brokers, client))
    finally:
        client.stop()
        client.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
