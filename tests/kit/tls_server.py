"""A server that speaks TLS, in place of a ZooKeeper."""

from __future__ import annotations

import socket
import ssl
import threading
from pathlib import Path

HOST = "127.0.0.1"


class TlsServer:
    """Takes connections and reads what comes first; never answers."""

    def __init__(self, certificate: Path) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(certificate)
        self.listener = socket.create_server((HOST, 0))
        self.port = self.listener.getsockname()[1]
        self.read: list[bytes] = []
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def serve(self) -> None:
        while True:
            try:
                taken, _ = self.listener.accept()
            except OSError:
                return
            try:
                with self.context.wrap_socket(taken, server_side=True) as peer:
                    self.read.append(peer.recv(8))
            except OSError:
                taken.close()

    def close(self) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join()
