"""What passes proxies, kept; and clients of three libraries, with only their addresses set."""

from __future__ import annotations

import functools
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import confluent_kafka

from emulator.servers.cluster import KafkaCluster
from emulator.servers.fault_proxy import FaultProxy
from emulator.servers.jars import kafka_jars
from emulator.servers.java import QUICK_START, find_java
from emulator.servers.java_tools import class_path
from emulator.servers.process import ServerProcess
from wire.frame import RequestHeader, decode_request, decode_response


def key_of(frame: bytes) -> int:
    """API key of a Kafka request."""
    return int(struct.unpack_from(">h", frame)[0])


_BATCH = struct.Struct(">qiibihi")
"""Head of a batch: offset, length, epoch, magic, checksum, attributes, last offset delta."""


def last_offset(folder: Path) -> int:
    """The last offset in the newest segment of a log that is being written, -1: none."""
    segments = sorted(folder.glob("*.log"))
    if not segments:
        return -1
    data, at, last = segments[-1].read_bytes(), 0, int(segments[-1].stem) - 1
    while at + _BATCH.size <= len(data):
        offset, length, *_, delta = _BATCH.unpack_from(data, at)
        at += 12 + length
        if at <= len(data):
            last = offset + delta
    return last


@dataclass
class Tap:
    """A proxy that keeps the requests that pass: (monotonic seconds, frame).

    ``came_on`` has the number of the connection of each.
    """

    proxy: FaultProxy
    kept: list[tuple[float, bytes]] = field(default_factory=list)
    came_on: list[int] = field(default_factory=list)
    answers: list[tuple[bytes, bytes]] = field(default_factory=list)
    """Request and reply frames, if replies are kept."""

    def keep_answers(self, wanted: Callable[[bytes], bool]) -> Tap:
        """Keep these Kafka requests together with what the server says to them."""

        def watch(request: bytes, reply: bytes) -> None:
            if wanted(request):
                self.answers.append((request, reply))

        self.proxy.watch_replies = watch
        return self

    def answered(self) -> list[tuple[RequestHeader, Any, Any]]:
        """Header, request and response of what :meth:`keep_answers` has kept."""
        found = []
        for request, reply in self.answers:
            header, message = decode_request(request)
            _, response = decode_response(header.api_key, header.api_version, reply)
            found.append((header, message, response))
        return found

    def keep(self, wanted: Callable[[bytes], bool] = lambda _: True) -> Tap:
        def watch(frame: bytes) -> None:
            if wanted(frame):
                self.kept.append((time.monotonic(), frame))
                self.came_on.append(self.proxy.showing)

        self.proxy.watch = watch
        return self

    @functools.cached_property
    def decoded(self) -> list[tuple[float, RequestHeader, Any]]:
        """Kafka requests, once no more come."""
        return [(at, *decode_request(frame)) for at, frame in self.kept]

    def of(self, kind: type) -> list[Any]:
        return [message for _, _, message in self.decoded if isinstance(message, kind)]


class Confluent:
    """librdkafka, producing and counting."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.acknowledged = 0
        self.errors: list[str] = []
        self._topic = topic
        self._producer = confluent_kafka.Producer(
            {"bootstrap.servers": bootstrap, "acks": "all", "log_level": 0}
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _note(self, error: Any, _message: Any) -> None:
        if error is None:
            self.acknowledged += 1
        else:
            self.errors.append(str(error))

    def _run(self) -> None:
        while not self._stop.wait(0.05):
            self._producer.produce(self._topic, b"x" * 100, callback=self._note)
            self._producer.poll(0)
        self._producer.flush(60)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


def java_producer(cluster: KafkaCluster, folder: Path, topic: str) -> ServerProcess:
    """Kafka's own Java client, by kafka-verifiable-producer."""
    release = cluster.brokers[0].release
    process = ServerProcess("java-producer", folder)
    # That tool, alone among Kafka's producers, does not retry unless told to.
    config = folder / "java-producer.properties"
    config.write_text("retries=2147483647\n")
    return process.launch(
        [
            *(find_java().executable, *QUICK_START, "-Xmx128m"),
            *("-cp", class_path(kafka_jars(release))),
            "org.apache.kafka.tools.VerifiableProducer",
            *("--bootstrap-server", cluster.bootstrap, "--topic", topic),
            *("--throughput", "20", "--acks", "-1", "--producer.config", config),
        ]
    )
