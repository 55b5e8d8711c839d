"""``/faults`` of the metrics port: which clients may change the script of faults, and how.

Only within this machine, and only with the token, which the node writes into its folder for its own
user to read: a page in a browser, or another user of the machine, cannot make a node fail.

``GET`` shows the faults with their counts, ``POST`` adds some (TOML, or JSON with the content type
``application/json``), ``DELETE`` removes all.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Final

from emulator.io.http import HttpRequest, Page
from emulator.io.local_token import LocalToken
from emulator.net.faults.fault import ScriptError, read_json, read_toml
from emulator.net.faults.script import FaultScript
from emulator.seam import Log

TOKEN_FILE: Final = "faults.token"  # noqa: S105 - where it is, not what
DOTS_MAX: Final = 2_000
"""Of one script. Reading a key of n parts takes a time that grows with the square of n: a body of
32,000 would stop the node for half a minute."""


class FaultsRoute:
    """Answers requests for one script; :meth:`close` removes the token.

    Args:
        script: of the node.
        folder: of the node.
        log: takes a line that says so.

    Raises:
        OSError: the token cannot be written.
    """

    def __init__(self, script: FaultScript, folder: Path, log: Callable[[Log], None]) -> None:
        self._script = script
        self._token = LocalToken(folder / TOKEN_FILE)
        where: dict[str, object] = {"path": "/faults", "token": str(self._token.path)}
        log(Log("warning", "requests may be made to fail by a script of faults", where))

    def close(self) -> None:
        """Remove the token."""
        self._token.close()

    def answer(self, asked: HttpRequest) -> Page:
        """The page for one request."""
        refusal = self._token.refusal(asked)
        if refusal is not None:
            return refusal
        try:
            match asked.method:
                case "GET" | "HEAD":
                    pass
                case "DELETE":
                    self._script.clear()
                case "POST":
                    self._add(asked)
                case _:
                    return Page(405, "text/plain", b"only GET, POST and DELETE\n")
        except ScriptError as error:
            return Page(400, "text/plain", f"{error}\n".encode(errors="replace"))
        body = json.dumps({"fault": self._script.status()}, indent=1)
        return Page(200, "application/json", body.encode() + b"\n")

    def _add(self, asked: HttpRequest) -> None:
        try:
            text = asked.body.decode()
        except UnicodeDecodeError as error:
            raise ScriptError(f"cannot be read: {error}") from error
        if text.count(".") > DOTS_MAX:
            raise ScriptError(f"more than {DOTS_MAX} dots")
        kind = asked.headers.get("content-type", "").partition(";")[0].strip().lower()
        read = read_json if kind == "application/json" else read_toml
        self._script.add(*read(text))
