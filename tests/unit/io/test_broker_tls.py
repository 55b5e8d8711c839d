"""A broker in ZooKeeper mode whose ZooKeeper speaks TLS."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from emulator.cli import app
from tests.kit.certificates import Authority
from tests.kit.tls_server import HOST, TlsServer


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[TlsServer, Path]]:
    authority = Authority(tmp_path)
    with closing(TlsServer(authority.issue("server", HOST))) as made:
        yield made, authority.pem


def ran(folder: Path, port: int, truststore: Path) -> Any:
    config = folder / "broker.properties"
    config.write_text(
        f"broker.id=1\nzookeeper.connect={HOST}:{port}\nlisteners=PLAINTEXT://{HOST}:0\n"
        f"log.dirs={folder / 'data'}\nzookeeper.connection.timeout.ms=1500\n"
        "zookeeper.ssl.client.enable=true\n"
        "zookeeper.clientCnxnSocket=org.apache.zookeeper.ClientCnxnSocketNetty\n"
        f"zookeeper.ssl.truststore.location={truststore}\nzookeeper.ssl.truststore.type=PEM\n"
    )
    return CliRunner().invoke(app, ["broker", "-c", str(config)])


def test_it_connects_by_tls(server: tuple[TlsServer, Path], tmp_path: Path) -> None:
    peer, authority = server
    result = ran(tmp_path, peer.port, authority)
    assert peer.read, "no handshake was completed"
    assert len(peer.read[0]) == 8, "the connect request follows it"
    assert result.exit_code == 1
    assert "bug" not in result.output


def test_a_truststore_that_is_none_is_a_sentence(tmp_path: Path) -> None:
    result = ran(tmp_path, 1, tmp_path / "nothing.pem")
    assert result.exit_code == 1
    assert "zookeeper.ssl.truststore.location" in result.output
    assert "Traceback" not in result.output
