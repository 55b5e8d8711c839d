"""librdkafka's mock of three brokers: prints its addresses, and lasts as long as its input."""

from __future__ import annotations

import sys

from confluent_kafka import Producer


def main() -> None:
    """Run it; librdkafka replaces the address that it is given by those of the mock."""
    producer = Producer({"bootstrap.servers": "none", "test.mock.num.brokers": 3, "log_level": 3})
    brokers = producer.list_topics(timeout=30).brokers.values()
    sys.stdout.write(",".join(f"{one.host}:{one.port}" for one in brokers) + "\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main()
