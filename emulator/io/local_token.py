"""A token that a node writes into its folder, for requests of its own user on its own machine.

A page in a browser, or another user of the machine, cannot read it.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import secrets
from pathlib import Path
from typing import Final

from emulator.io.http import HttpRequest, Page

TOKEN_BYTES: Final = 32


class LocalToken:
    """Judges requests; :meth:`close` removes the file.

    Args:
        path: of the file, which only this user may read; made anew.

    Raises:
        OSError: it cannot be written; the error names it.
    """

    def __init__(self, path: Path) -> None:
        self._token = secrets.token_hex(TOKEN_BYTES)
        self.path = path
        # A file that is there may be open, or readable for others.
        path.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            with os.fdopen(os.open(path, flags, 0o600), "w") as file:
                os.fchmod(file.fileno(), 0o600)
                file.write(self._token + "\n")
        except OSError as error:
            self.close()
            raise OSError(error.errno, error.strerror, str(path)) from error

    def close(self) -> None:
        """Remove the file."""
        with contextlib.suppress(OSError):
            self.path.unlink()

    def refusal(self, asked: HttpRequest) -> Page | None:
        """The answer to a request from elsewhere, or without the token; None if it may be done."""
        if not asked.local:
            return Page(404, "text/plain", b"only from this machine\n")
        given = asked.headers.get("authorization", "").encode("latin-1")
        if hmac.compare_digest(given, f"Bearer {self._token}".encode()):
            return None
        why = f"needs the header Authorization: Bearer TOKEN; the token is in {self.path.name}\n"
        return Page(403, "text/plain", why.encode())
