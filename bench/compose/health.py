"""The health checks of the containers."""

from __future__ import annotations

import os
import socket
import urllib.request
from pathlib import Path
from typing import Final

from bench.compose import control, plan
from bench.compose.plan import ServerMode

_ASK_S: Final = 3.0
_SPARK_UI: Final = {"spark-master": 18080, "spark-worker-1": 18081, "spark-worker-2": 18082}


def healthy(name: str) -> bool:
    """Whether the server of a service does what it should now.

    A controller that no step has started yet is healthy: it is to wait.
    """
    kind, _, number = name.partition("-")
    if kind == plan.ZOOKEEPER:
        return _four_letters(plan.ZOOKEEPER, plan.ZOOKEEPER_PORT, b"ruok") == b"imok"
    if kind == plan.PROMETHEUS:
        return _answers(f"{plan.prometheus_url()}/-/ready")
    if kind == "broker":
        return _accepts(name, plan.BROKERS[int(number)])
    if kind == "controller":
        stopped = control.wanted_mode(name) is ServerMode.STOPPED
        return stopped or _answers(f"{plan.url(int(number))}/livez")
    if name in _SPARK_UI:
        return _answers(f"http://{name}:{_SPARK_UI[name]}")
    return os.access(control.volume(), os.W_OK) and Path("/proc/1").exists()


def _accepts(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), _ASK_S).close()
    except OSError:
        return False
    return True


def _four_letters(host: str, port: int, word: bytes) -> bytes:
    try:
        with socket.create_connection((host, port), _ASK_S) as connection:
            connection.sendall(word)
            return b"".join(iter(lambda: connection.recv(4096), b""))
    except OSError:
        return b""


def _answers(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=_ASK_S).close()  # noqa: S310 - http among containers
    except (OSError, ValueError):
        return False
    return True
