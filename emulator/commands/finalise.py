"""``kraft-bridge finalise``: what is missing before a migration is final, and the end of a hold."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from pathlib import Path
from shlex import quote
from typing import Annotated, Any, Final, NamedTuple

import msgspec
import typer

from emulator.commands.asking import AnswerError, ask, page_of, unanswered, without_login
from emulator.commands.common import Json, NodeFile, OnlyPlan, checked_plan, columns, fail
from emulator.commands.exits import ExitCode
from emulator.commands.json_forms import stamped
from emulator.commands.status import (
    POLL_S,
    UNREAD,
    AddressError,
    check_local,
    fetch,
    leader_of,
    misread,
    status_of,
)
from emulator.commands.status_next import brokers_first
from emulator.commands.status_nodes import (
    DEFAULT_URL,
    AskedNodes,
    NodeAnswer,
    of_urls,
    url_option,
)
from emulator.io.operator_route import TOKEN_FILE
from emulator.io.printable import printable, printable_json, sentence
from emulator.operations.next_steps import (
    FILE,
    Action,
    NextStep,
    known_leader,
    led_by,
    lines,
    next_steps,
)
from emulator.operations.next_steps import as_json as steps_as_json

FINAL_S: Final = 30.0
"""How long --yes waits for the final record after the hold is released."""
UNDONE: Final = (
    "This cannot be undone: the record POST_MIGRATION is written to the metadata log, ZooKeeper is "
    "not written any more, brokers in ZooKeeper mode are refused, and there is no way back to "
    "ZooKeeper mode but an offline one, which loses every change made since."
)
BROKERS_FIRST: Final = "Until then leave the controllers as they are: they write both stores."


class Judgement(NamedTuple):
    """The lines to be printed, and the exit code."""

    lines: list[str]
    """The first is the verdict; what is to be done is printed behind it."""
    code: ExitCode
    held: bool = False
    """Whether a hold is all that is missing."""
    steps: tuple[NextStep, ...] = ()
    """As ``status`` has them."""
    final: bool = False
    """Whether the migration is final."""


def finalise(
    config: NodeFile = None,
    url: Annotated[
        str | None,
        typer.Option(
            "--url",
            help=f"Instead of -c: the leader's kraftbridge.metrics.port; default {DEFAULT_URL}.",
        ),
    ] = None,
    log_dir: Annotated[
        Path | None,
        typer.Option("--log-dir", help="With --yes: the leader's folder; default: that of -c."),
    ] = None,
    *,
    dry_run: OnlyPlan = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="End the hold, if nothing else is missing.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show what is missing before the migration is final; with --yes end a hold, which makes it so.

    With -c FILE of a controller the one of its quorum that leads is asked. For --yes it must be the
    leader's file, on its machine. Exit code 1: more than a hold is missing.
    """
    checked_plan(dry_run=dry_run, yes=yes)
    if config is not None and url is not None:
        raise fail("-c and --url exclude each other", ExitCode.WRONG)
    if yes and log_dir is None and config is None:
        why = "--yes needs --log-dir, with the file operator.token, or -c FILE"
        raise fail(why, ExitCode.WRONG)
    own = ""
    if config is not None:
        url, folder = leader_of(config, own=yes and log_dir is None)
        log_dir, own = log_dir or folder, "" if folder is None else str(config)
    url = DEFAULT_URL if url is None else url
    asked = url_option(url) if config is None else f" -c {quote(str(config))}"
    look = partial(_judged, url, asked, own)
    try:
        if yes:
            check_local(url)
        found = look()
        if yes and found.held:
            assert log_dir is not None
            found = (_awaited if _release(url, log_dir) else _otherwise)(look)
    except AddressError as error:
        raise fail(f"--url {error}", ExitCode.WRONG) from error
    except TokenError as error:
        raise fail(str(error), ExitCode.WRONG) from error
    except (OSError, ValueError) as error:
        raise fail(unanswered(url, error), ExitCode.UNREACHABLE) from error
    if as_json:
        body = stamped(
            "finalise",
            {"said": found.lines, "only_held": found.held, "next": steps_as_json(found.steps)},
        )
        typer.echo(printable_json(msgspec.json.encode(body).decode()))
    else:
        first, *others = found.lines
        typer.echo("\n".join(map(printable, [first, *lines(found.steps, columns()), *others])))
    raise typer.Exit(found.code)


def judged(
    status: dict[str, Any], asked: str = "", leader_url: str = "", own: str = ""
) -> Judgement:
    """What ``/status`` of a controller means for finalising.

    Args:
        status: the document.
        asked: the option with which it was asked; empty: none.
        leader_url: where the controller that leads answers, if this one does not.
        own: the file of this controller; empty: not known.
    """
    if status.get("role") == "broker":
        return Judgement(["this is a broker; ask the controller that leads"], ExitCode.WRONG)
    found = status.get("finalisation")
    if found is not None and found["state"] == "finalised":
        return Judgement(
            ["FINAL: the migration is finalised, for good."], ExitCode.DONE, final=True
        )
    follows = found is not None and found["state"] == "follows"
    if follows or known_leader(status) != status["node_id"]:
        steps = _at_leader(next_steps(status, asked=asked), leader_url)
        text = f"NOT HERE: node {status['node_id']} does not lead: {led_by(status, steps[0])}"
        return Judgement([text], ExitCode.UNREACHABLE, steps=steps)
    steps = next_steps(status, asked=asked, files={status["node_id"]: own} if own else {})
    phase = status["phase"]["text"]
    if found is None:
        text = f"NOTHING TO FINALISE in this phase: {phase}"
        return Judgement([text], ExitCode.FOUND, steps=steps)
    missing = [one for one in found["missing"] if one["why"] != "held"]
    if found["state"] == "migrating":
        # A leader that runs with the flag leaves the mark when it is restarted without.
        missing = [one for one in missing if one["why"] != "no_mark"] or missing
    if brokers_first(found):
        whys = [one for one in missing if one["why"] == "zookeeper_broker"]
        text = f"NOT YET: brokers are in ZooKeeper mode: {phase}"
        told = [text, *(f"missing: {one['text']}" for one in whys), BROKERS_FIRST]
        return Judgement(told, ExitCode.FOUND, steps=steps)
    if missing:
        # A controller is not named for a restart while something else has to come first.
        waits = steps[0].problem or steps[0].action is Action.WAIT
        shown = [one for one in missing if not (waits and one["why"] == "controller_with_flag")]
        told = [
            f"NOT YET: {_counted(missing)} missing: {phase}",
            *(f"missing: {one['text']}" for one in shown),
            UNDONE,
        ]
        return Judgement(told, ExitCode.FOUND, steps=steps)
    if found["hold"] and found["state"] != "held":
        text = "NOT YET: it is not known yet what is missing: run this again."
        return Judgement([text], ExitCode.FOUND, steps=steps)
    if found["hold"]:
        text = "READY: only kraftbridge.finalise.hold keeps the migration open: --yes ends that."
        return Judgement([text, UNDONE], ExitCode.DONE, held=True, steps=steps)
    text = "READY: nothing is missing: the final record is being written."
    return Judgement([text], ExitCode.DONE, steps=steps)


def _counted(missing: list[dict[str, Any]]) -> str:
    """How many, with the verb.

    >>> _counted([{"why": "controller_with_flag"}] * 3), _counted([{"why": "no_mark"}])
    ('3 restarts are', '1 thing is')
    """
    restarts = all(one["why"] == "controller_with_flag" for one in missing)
    noun = "restart" if restarts else "thing"
    return f"{len(missing)} {noun}{' is' if len(missing) == 1 else 's are'}"


def _at_leader(steps: tuple[NextStep, ...], leader_url: str) -> tuple[NextStep, ...]:
    """To ask the one that leads is to run this verb there."""
    option = url_option(leader_url) if leader_url else FILE
    return tuple(
        replace(one, command=f"kraft-bridge finalise{option}") if one.action is Action.ASK else one
        for one in steps
    )


def _judged(url: str, asked: str, own: str) -> Judgement:
    found = status_of(url)
    try:
        leads = found.get("leader_id") == found["node_id"]
        nodes = AskedNodes(of_urls([url]), fetch)
        leader = "" if leads else nodes.leader_url(NodeAnswer(url, "", found))
        return judged(found, asked, leader, own)
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
            why = f"not the token of the controller at {without_login(url)}: give its -c FILE"
            raise TokenError(f"{path}: {why}") from error
        raise ValueError(f"/finalise was answered {error.code} {error.reason}") from error
    return True


def _otherwise(look: Callable[[], Judgement]) -> Judgement:
    """What stands where the order to end the hold was refused: somebody else may have ended it."""
    found = look()
    if found.code is ExitCode.DONE and not found.held:
        return _awaited(look)
    text = "The hold was not ended: what is missing has changed since it was looked at."
    code = ExitCode.FOUND if found.held else found.code
    return found._replace(lines=[text, *found.lines], code=code, held=False)


def _awaited(look: Callable[[], Judgement]) -> Judgement:
    """What stands after the release, as soon as it is final, or after some time."""
    end = time.monotonic() + FINAL_S
    while True:
        found = look()
        if found.final:
            return found
        if time.monotonic() >= end:
            return found._replace(
                lines=[*found.lines, "It is not final yet."], code=ExitCode.NOT_YET, held=False
            )
        time.sleep(min(POLL_S, 0.1))
