"""Pages of the metrics port that change something on behalf of an operator.

Only within this machine and with the token, as ``/faults``: whoever may read the node's folder may
ask for them. Requests of clients and brokers never come here.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from emulator.io import http
from emulator.io.http import HttpRequest, Page
from emulator.net.faults.fault import ScriptError, read_json, read_toml
from emulator.net.faults.script import FaultScript
from emulator.node.finalising import Finalising
from emulator.node.introspection import finalisation
from emulator.node.machine import Node
from emulator.node.reconciling import Reconciling, RefusedComparisonError
from emulator.seam import Log

# A token that a node writes into its folder, for requests of its own user on its own machine.
#
# A page in a browser, or another user of the machine, cannot read it.

TOKEN_BYTES: Final = 32


class BearerToken:
    """A new secret; ``text`` is what requests carry behind ``Authorization: Bearer``."""

    def __init__(self) -> None:
        self.text = secrets.token_hex(TOKEN_BYTES)

    def write(self, path: Path) -> None:
        """Write it into a file that only this user may read; made anew.

        Raises:
            OSError: it cannot be written; the error names it, and nothing is left.
        """
        # A file that is there may be open, or readable for others.
        path.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            with os.fdopen(os.open(path, flags, 0o600), "w") as file:
                os.fchmod(file.fileno(), 0o600)
                file.write(self.text + "\n")
        except OSError as error:
            with contextlib.suppress(OSError):
                path.unlink()
            raise OSError(error.errno, error.strerror, str(path)) from error

    def carried_by(self, asked: HttpRequest) -> bool:
        """Whether a request has it."""
        given = asked.headers.get("authorization", "").encode("latin-1")
        return hmac.compare_digest(given, f"Bearer {self.text}".encode())


class LocalToken:
    """Judges requests; :meth:`close` removes the file.

    Args:
        path: of the file, which only this user may read; made anew.

    Raises:
        OSError: it cannot be written; the error names it.
    """

    def __init__(self, path: Path) -> None:
        self._token = BearerToken()
        self.path = path
        self._token.write(path)

    def close(self) -> None:
        """Remove the file."""
        with contextlib.suppress(OSError):
            self.path.unlink()

    def refusal(self, asked: HttpRequest) -> Page | None:
        """The answer to a request from elsewhere, or without the token; None if it may be done."""
        if not asked.local:
            return Page(404, "text/plain", b"only from this machine\n")
        if self._token.carried_by(asked):
            return None
        why = f"needs the header Authorization: Bearer TOKEN; the token is in {self.path.name}\n"
        return Page(403, "text/plain", why.encode())


TOKEN_FILE: Final = "operator.token"  # noqa: S105 - where it is, not what
NOT_ONLY_HELD: Final = "more than the hold is missing, or it is not known yet what is"


class OperatorRoute:
    """Guards some pages by one token; :meth:`close` removes it.

    Args:
        folder: of the node.
        pages: path -> what answers every method.

    Raises:
        OSError: the token cannot be written.
    """

    def __init__(self, folder: Path, pages: http.Actions) -> None:
        self._token = LocalToken(folder / TOKEN_FILE)
        self.actions: http.Actions = {path: self._guarded(page) for path, page in pages.items()}
        """The same pages, for those who have the token."""

    def close(self) -> None:
        """Remove the token."""
        self._token.close()

    def _guarded(self, page: http.Action) -> http.Action:
        return lambda asked: self._token.refusal(asked) or page(asked)


def reconcile_page(reconciling: Reconciling) -> Callable[[HttpRequest], Page]:
    """``/reconcile``: ``POST`` asks for a comparison, ``GET`` shows how far the last one is.

    The body of a POST is a JSON object; ``{"dry_run": true}`` writes nothing to ZooKeeper. It is
    answered 409 while the node does not lead, or cannot compare now.
    """

    def answer(asked: HttpRequest) -> Page:
        match asked.method:
            case "GET" | "HEAD":
                return _json(200, reconciling.status())
            case "POST":
                try:
                    reconciling.ask(dry_run=_dry_run(asked.body))
                except ValueError as error:
                    return Page(400, "text/plain", f"{error}\n".encode())
                except RefusedComparisonError as error:
                    return _json(409, {"why": str(error), "leader_id": error.leader_id})
                return _json(200, reconciling.status())
            case _:
                return Page(405, "text/plain", b"only GET and POST\n")

    return answer


def finalise_page(node: Node, log: Callable[[Log], None]) -> Callable[[HttpRequest], Page]:
    """``/finalise``: ``POST`` ends the hold of this process (``node/finalising.py``).

    409 if this node does not lead, has not judged yet, or more than the hold is missing.
    """

    def answer(asked: HttpRequest) -> Page:
        if asked.method != "POST":
            return Page(405, "text/plain", b"only POST\n")
        side = node.migration
        if not isinstance(side, Finalising) or not side.only_held:
            # An order must not outlive what the operator saw.
            return _json(409, {"why": NOT_ONLY_HELD, "finalisation": finalisation(node)})
        log(Log("warning", "the hold on finalising is ended", {}))
        node.release_hold()
        return _json(200, {"finalisation": finalisation(node)})

    return answer


def _dry_run(body: bytes) -> bool:
    try:
        found = json.loads(body or b"{}")
    except (ValueError, RecursionError):
        raise ValueError("the body is not JSON") from None
    if not isinstance(found, dict) or found.keys() - {"dry_run"}:
        raise ValueError("the body must be a JSON object with dry_run alone")
    dry_run = found.get("dry_run", False)
    if not isinstance(dry_run, bool):
        raise ValueError("dry_run must be true or false")  # noqa: TRY004 - of the text, not a type
    return dry_run


def _json(status: int, value: Mapping[str, Any]) -> Page:
    return Page(status, "application/json", json.dumps(value, indent=1).encode() + b"\n")


# ``/faults`` of the metrics port: which clients may change the script of faults, and how.
#
# Only within this machine, and only with the token, which the node writes into its folder for its
# own user to read: a page in a browser, or another user of the machine, cannot make a node fail.
#
# ``GET`` shows the faults with their counts, ``POST`` adds some (TOML, or JSON with the content
# type ``application/json``), ``DELETE`` removes all.

FAULTS_TOKEN_FILE: Final = "faults.token"  # noqa: S105 - where it is, not what
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
        self._token = LocalToken(folder / FAULTS_TOKEN_FILE)
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
