"""Asks a running controller to compare ZooKeeper with its metadata, and shows what it found."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import msgspec
import typer

from emulator.commands.asking import NOT_OURS, AnswerError, ask, page_of, plain, without_login
from emulator.commands.common import fail
from emulator.commands.exits import ExitCode
from emulator.commands.status import UNREAD, AddressError, check_local, status_of
from emulator.commands.status_next import phase_of
from emulator.commands.zk.compare import ReconcileOutcome, print_outcome
from emulator.io.operator_route import TOKEN_FILE

POLL_S: Final = 0.2
PAGE: Final = "reconcile"
NOTHING: Final[Mapping[str, str]] = MappingProxyType(
    {
        "finalised": "the migration is final: ZooKeeper is no longer written or compared",
        "finalising": "this controller runs without zookeeper.metadata.migration.enable, and does "
        "not write ZooKeeper",
        "not migrating": "no migration is enabled on this controller",
    }
)
"""Phase of a node without that page -> why it has none."""


def run(url: str, folder: Path, *, dry_run: bool, timeout_s: float, as_json: bool) -> None:
    """Ask, wait for the end, print.

    Args:
        url: the metrics port.
        folder: of the node, with the token.
        dry_run: write nothing.
        timeout_s: how long its end is waited for.
        as_json: one JSON object a line.

    Raises:
        typer.Exit: always; with the exit code.
    """
    try:
        outcome = _outcome(url, _token(folder, url), dry_run=dry_run, timeout_s=timeout_s)
    except (KeyError, TypeError, AttributeError) as error:
        why = "what it answers is not read by this release: use the kraft-bridge of its release"
        raise fail(f"{without_login(page_of(url, PAGE))}: {why}", ExitCode.UNREACHABLE) from error
    print_outcome(outcome, as_json=as_json)


def _outcome(url: str, token: str, *, dry_run: bool, timeout_s: float) -> ReconcileOutcome:
    body = msgspec.json.encode({"dry_run": dry_run})
    found = _asked(url, token, body)
    end = time.monotonic() + timeout_s
    while found["state"] not in {"done", "failed"}:
        if time.monotonic() > end:
            raise fail(_unended(found, timeout_s), ExitCode.FOUND)
        time.sleep(POLL_S)
        found = _asked(url, token)
        if found["state"] == "none":
            raise fail("the controller was started again meanwhile, and compares when it claims")
    why = found["why"] and f"the comparison has not come to an end: {found['why']}"
    return ReconcileOutcome(
        dry_run=found["dry_run"],
        offset=found["offset"],
        counts=found["counts"],
        differences=[(each["path"], each["kind"]) for each in found["differences"]],
        refused={each["path"]: each["cause"] for each in found["refused"]},
        why=why,
    )


def _unended(found: dict[str, Any], timeout_s: float) -> str:
    what = f"the comparison has not ended in {timeout_s:g} s; the controller goes on with it"
    refused = "; ".join(f"{one['path']}: {one['cause']}" for one in found["refused"])
    return f"{what}. ZooKeeper refuses {refused}" if refused else what


def _nothing_at(url: str) -> str:
    """Why there is nothing to compare at a node, as its status says; empty if it does not."""
    try:
        found = status_of(url)
        if found.get("role") == "broker":
            return "this is a broker; ask the controller that leads"
        return "" if found.get("migration") else NOTHING.get(phase_of(found), "")
    except (OSError, *UNREAD):
        return ""


def _token(folder: Path, url: str) -> str:
    path = folder / TOKEN_FILE
    try:
        token = path.read_text("ascii").strip()
    except FileNotFoundError:
        if nothing := _nothing_at(url):
            raise fail(f"{without_login(url)}: {nothing}") from None
        why = "no such file: no controller with a migration and kraftbridge.metrics.port runs here"
        raise fail(f"{path}: {why}", ExitCode.WRONG) from None
    except (OSError, UnicodeDecodeError) as error:
        why = (error.strerror or str(error)) if isinstance(error, OSError) else "not a token"
        raise fail(f"{path}: {why}", ExitCode.WRONG) from error
    if not token.isalnum():
        raise fail(f"{path}: not a token", ExitCode.WRONG)
    return token


def _asked(url: str, token: str, body: bytes | None = None) -> dict[str, Any]:
    """What ``/reconcile`` answers; a POST if there is a body."""
    try:
        check_local(url)
    except AddressError as error:
        raise fail(f"--url {error}", ExitCode.WRONG) from error
    where = page_of(url, PAGE)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(where, data=body, headers=headers)  # noqa: S310 - http, see above
    where = without_login(where)
    try:
        found = msgspec.json.decode(ask(request))
    except AnswerError as error:
        raise _refused(url, where, error) from error
    except (OSError, ValueError, RecursionError) as error:
        why = str(error) if isinstance(error, OSError) else NOT_OURS
        raise fail(f"{where}: {why}", ExitCode.UNREACHABLE) from error
    if not isinstance(found, dict) or "state" not in found:
        raise fail(f"{where}: {NOT_OURS}", ExitCode.UNREACHABLE)
    return found


def _refused(url: str, where: str, error: AnswerError) -> typer.Exit:
    """The end after an answer that is not 200."""
    if error.code == HTTPStatus.NOT_FOUND and (nothing := _nothing_at(url)):
        return fail(f"{without_login(url)}: {nothing}")
    if error.code == HTTPStatus.CONFLICT:
        try:
            return fail(str(msgspec.json.decode(error.text)["why"]))
        except (msgspec.DecodeError, KeyError, TypeError):
            pass
    if error.code == HTTPStatus.FORBIDDEN:
        return fail(f"{where} refuses the token in --log-dir: it is another node", ExitCode.WRONG)
    answer = f"{error.code} {error.reason}: {plain(error.text, 500)}"
    return fail(f"{where}: {answer}", ExitCode.UNREACHABLE)
