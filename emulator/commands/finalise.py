"""``kraft-bridge finalise``: what is missing before a migration is final, and the end of a hold."""

from __future__ import annotations

import time
import urllib.request
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import msgspec
import typer

from emulator.commands.asking import AnswerError, ask, page_of, unanswered, without_login
from emulator.commands.common import Json, OnlyPlan, checked_plan, fail
from emulator.commands.exits import ExitCode
from emulator.commands.json_forms import stamped
from emulator.commands.status import POLL_S, UNREAD, AddressError, check_local, misread, status_of
from emulator.commands.status_next import brokers_first, phase_of
from emulator.io.operator_route import TOKEN_FILE
from emulator.io.printable import printable, printable_json, sentence

FINAL_S: Final = 30.0
"""How long --yes waits for the final record after the hold is released."""
UNDONE: Final = (
    "This cannot be undone: the record POST_MIGRATION is written to the metadata log, ZooKeeper is "
    "not written any more, brokers in ZooKeeper mode are refused, and there is no way back to "
    "ZooKeeper mode but an offline one, which loses every change made since."
)
STEPS: Final = (
    "Restart each controller without zookeeper.metadata.migration.enable, one by one, by SIGTERM: "
    "the last restart finalises. kraftbridge.finalise.hold=true on each keeps it open until "
    "kraft-bridge finalise --yes."
)


BROKERS_FIRST: Final = (
    "Not now: restart each broker that is in ZooKeeper mode in KRaft mode first, one by one. Until "
    "then leave the controllers as they are: they write both stores. Afterwards:"
)


class Judgement(NamedTuple):
    """The lines to be printed, and the exit code."""

    lines: list[str]
    code: ExitCode
    held: bool = False
    """Whether a hold is all that is missing."""


def finalise(
    url: Annotated[
        str, typer.Option("--url", help="The leader's kraftbridge.metrics.port, http://…")
    ] = "http://127.0.0.1:9404",
    log_dir: Annotated[
        Path | None, typer.Option("--log-dir", help="With --yes: the leader's folder.")
    ] = None,
    *,
    dry_run: OnlyPlan = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="End the hold, if nothing else is missing.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show what is missing before the migration is final; with --yes end a hold, which makes it so.

    Ask on the machine of the controller that leads. Exit code 1: more than a hold is missing.
    """
    checked_plan(dry_run=dry_run, yes=yes)
    if yes and log_dir is None:
        raise fail("--yes needs --log-dir, with the file operator.token", ExitCode.WRONG)
    try:
        if yes:
            check_local(url)
        found = _judged(url)
        if yes and found.held:
            assert log_dir is not None
            found = _awaited(url) if _release(url, log_dir) else _otherwise(url)
    except AddressError as error:
        raise fail(f"--url {error}", ExitCode.WRONG) from error
    except TokenError as error:
        raise fail(str(error), ExitCode.WRONG) from error
    except (OSError, ValueError) as error:
        raise fail(unanswered(url, error), ExitCode.UNREACHABLE) from error
    if as_json:
        body = stamped("finalise", {"said": found.lines, "only_held": found.held})
        typer.echo(printable_json(msgspec.json.encode(body).decode()))
    else:
        typer.echo("\n".join(map(printable, found.lines)))
    raise typer.Exit(found.code)


def judged(status: dict[str, Any]) -> Judgement:
    """What ``/status`` of a controller means for finalising."""
    found = status.get("finalisation")
    if status.get("role") == "broker":
        return Judgement(["this is a broker; ask the controller that leads"], ExitCode.WRONG)
    if found is None:
        phase = phase_of(status)
        return Judgement([f"phase: {phase}. There is nothing to finalise."], ExitCode.FOUND)
    if found["state"] == "finalised":
        return Judgement(["The migration is finalised, for good."], ExitCode.DONE)
    if found["state"] == "follows":
        leader = status.get("leader_id")
        asked = "no leader is known" if leader is None else f"ask node {leader}, which leads"
        return Judgement([f"node {status['node_id']} does not lead: {asked}"], ExitCode.UNREACHABLE)
    missing = [one for one in found["missing"] if one["why"] != "held"]
    lines = [f"missing: {one['text']}" for one in missing]
    if missing:
        first = [BROKERS_FIRST] if brokers_first(found) else []
        steps = [*first, STEPS] if found["state"] == "migrating" else []
        return Judgement([*lines, *steps, UNDONE], ExitCode.FOUND)
    if found["hold"] and found["state"] != "held":
        return Judgement(["It is not known yet what is missing: ask again."], ExitCode.FOUND)
    if found["hold"]:
        text = "Only kraftbridge.finalise.hold keeps the migration open: --yes ends that."
        return Judgement([text, UNDONE], ExitCode.DONE, held=True)
    return Judgement(["Nothing is missing: the final record is being written."], ExitCode.DONE)


def _judged(url: str) -> Judgement:
    found = status_of(url)
    try:
        return judged(found)
    except UNREAD as error:
        raise ValueError(misread(found)) from error


class TokenError(ValueError):
    """The token cannot be read, or is not the controller's."""


def _release(url: str, log_dir: Path) -> bool:
    """End the hold; False: the controller refuses, as a hold is not all that is missing by now.

    Raises:
        TokenError: no token that the controller takes.
        OSError, ValueError: it does not answer, or not as one with a hold.
    """
    path = log_dir / TOKEN_FILE
    try:
        token = path.read_text("ascii").strip()
    except OSError as error:
        raise TokenError(sentence(error)) from error
    except UnicodeDecodeError as error:
        raise TokenError(f"{path}: not a token") from error
    if not (token.isascii() and token.isalnum()):
        raise TokenError(f"{path}: not a token")
    request = urllib.request.Request(  # noqa: S310 - its address was checked before
        page_of(url, "finalise"),
        method="POST",
        data=b"",
        headers={"Authorization": f"Bearer {token}"},
    )
    try:
        ask(request)
    except AnswerError as error:
        if error.code == HTTPStatus.CONFLICT:
            return False
        if error.code == HTTPStatus.FORBIDDEN:
            why = f"not the token of the controller at {without_login(url)}"
            raise TokenError(f"{path}: {why}") from error
        raise ValueError(f"/finalise was answered {error.code} {error.reason}") from error
    return True


def _otherwise(url: str) -> Judgement:
    """What stands where the order to end the hold was refused: somebody else may have ended it."""
    found = _judged(url)
    if found.code is ExitCode.DONE and not found.held:
        return _awaited(url)
    text = "The hold was not ended: what is missing has changed since it was looked at."
    return Judgement([text, *found.lines], ExitCode.FOUND if found.held else found.code)


def _awaited(url: str) -> Judgement:
    """What stands after the release, as soon as it is final, or after some time."""
    end = time.monotonic() + FINAL_S
    while True:
        found = _judged(url)
        if found.code is ExitCode.DONE and "finalised" in found.lines[0]:
            return found
        if time.monotonic() >= end:
            return Judgement([*found.lines, "It is not final yet."], ExitCode.NOT_YET)
        time.sleep(min(POLL_S, 0.1))
