"""``kraft-bridge status``: ask a controller or a broker for ``/status``, print it for a person."""

from __future__ import annotations

import ipaddress
import math
import re
import time
import urllib.parse
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import msgspec
import typer

from emulator.commands.asking import NOT_OURS, ask, page_of, plain, without_login
from emulator.commands.common import Json, fail
from emulator.commands.exits import ExitCode
from emulator.commands.status_next import BEFORE, STUCK, phase_of, reached, waited_for
from emulator.commands.status_nodes import (
    DEFAULT_URL,
    AskedNodes,
    NodeAnswer,
    NodesError,
    of_files,
    of_urls,
)
from emulator.commands.status_shown import console_of, show
from emulator.io.printable import printable, printable_json
from emulator.migration.phases import WAIT_FOR
from emulator.operations.next_steps import as_json as steps_as_json
from emulator.operations.next_steps import next_steps

POLL_S = 1.0
"""Between two looks of --wait."""
SCHEMAS: Final = ("status/4", "broker-status/2")
"""What a controller and a broker of this release show."""
Reasons: TypeAlias = frozenset[tuple[str, str]]
"""Each by kind and subject."""
EPOCHS_GIVEN_UP: Final = 4
"""So many epochs pass, under a reason that a follower shows too, only where no voter can lead."""
Files = Annotated[
    list[Path] | None,
    typer.Argument(help="More files for -c, as in -c *.properties.", show_default=False),
]
Configs = Annotated[
    list[Path] | None,
    typer.Option(
        "--config",
        "-c",
        help="server.properties of a controller; all of its quorum are asked. Several times.",
    ),
]
UNREAD: Final = (KeyError, TypeError, AttributeError, IndexError, ValueError)
"""What reading an answer of another form ends with."""


def status(
    files: Files = None,
    configs: Configs = None,
    url: Annotated[
        list[str] | None,
        typer.Option(
            "--url",
            help=f"Where a node serves metrics and status; default {DEFAULT_URL}. Several times: "
            "all are asked.",
        ),
    ] = None,
    wait: Annotated[
        str | None,
        typer.Option(help=f"Wait for a phase or a later one: {', '.join(WAIT_FOR)}."),
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(min=0, max=10_000_000, help="With --wait: seconds; else 60.")
    ] = None,
    *,
    watch: Annotated[
        bool, typer.Option("--watch", help="A line each second, until Ctrl-C.")
    ] = False,
    exit_when: Annotated[
        str | None, typer.Option(help="With --watch: end at a phase; takes what --wait takes.")
    ] = None,
    plain: Annotated[
        bool, typer.Option("--plain", help="No colours, no lines around tables, nothing wrapped.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show the phase of the migration, missing and refused brokers, the lag, and what to do next.

    Of several controllers (-c FILE, --url) the one that leads is shown, and each that does not
    answer. With --wait it ends with code 0 as soon as the phase is reached, with 1 if it cannot be
    reached without an operator, and when the time is over with 5, or with 3 if nobody answers then.
    With --watch it goes on in all these cases, until the phase of --exit-when is there.
    """
    _check_line(wait, exit_when, timeout, watch=watch)
    wanted = _wanted("--wait" if exit_when is None else "--exit-when", wait or exit_when)
    asked = asked_nodes([*(configs or ()), *(files or ())], url or [])
    if watch:
        raise typer.Exit(_watched(asked, wanted, timeout, plain=plain, as_json=as_json))
    code = ExitCode.DONE
    try:
        if not wanted:
            shown = asked.once()
        else:
            patience = 60.0 if timeout is None else timeout
            shown, code = _awaited(asked, (wait or "").lower(), wanted, patience)
        if as_json:
            text = printable_json(_with_next(asked, shown))
        else:
            text = _text(asked, shown, plain=plain)
    except (OSError, ValueError) as error:
        raise fail(asked.failed(error), ExitCode.UNREACHABLE) from error
    typer.echo(text, nl=False)
    for one in asked.unreached if as_json else ():
        typer.echo(printable(one), err=True)
    raise typer.Exit(code)


def _check_line(
    wait: str | None, exit_when: str | None, timeout: float | None, *, watch: bool
) -> None:
    """Exit with code 2 if options do not fit together."""
    if timeout is not None and math.isnan(timeout):
        raise fail("--timeout must be a number", ExitCode.WRONG)
    if watch and wait is not None:
        raise fail("--watch and --wait exclude each other: --watch --exit-when", ExitCode.WRONG)
    if exit_when is not None and not watch:
        raise fail("--exit-when needs --watch", ExitCode.WRONG)
    if timeout is not None and wait is None and exit_when is None:
        raise fail("--timeout needs --wait, or --exit-when", ExitCode.WRONG)


def _wanted(option: str, name: str | None) -> str:
    """What a phase on the command line stands for; of earlier releases it is taken, with a hint."""
    if name is None:
        return ""
    try:
        wanted, hint = waited_for(name)
    except ValueError as error:
        raise fail(f"{option} {name}: {error}", ExitCode.WRONG) from error
    if hint:
        typer.echo(f"kraft-bridge: {option} {hint}", err=True)
    return wanted


def _watched(
    asked: AskedNodes, wanted: str, timeout: float | None, *, plain: bool, as_json: bool
) -> ExitCode:
    from emulator.commands.status_watch import StatusWatch

    until_s = None if timeout is None else time.monotonic() + timeout
    at = (lambda phase: reached(phase, wanted)) if wanted else None
    document = (lambda shown: _with_next(asked, shown)) if as_json else None
    return StatusWatch(asked, misread, at, until_s, plain=plain, document=document).run()


def asked_nodes(files: list[Path], urls: list[str]) -> AskedNodes:
    """The nodes that a line names by ``-c`` and ``--url``; of none the one at the usual address.

    Raises:
        typer.Exit: with code 2: a file or an address is none of a controller.
    """
    try:
        targets = of_files(files) if files else []
        for one in urls:
            check_address(one)
    except AddressError as error:
        raise fail(f"--url {error}", ExitCode.WRONG) from error
    except NodesError as error:
        raise fail(str(error), ExitCode.WRONG) from error
    return AskedNodes([*targets, *of_urls(urls or ([] if files else [DEFAULT_URL]))], fetch)


def leader_of(file: Path, *, own: bool) -> tuple[str, Path | None]:
    """Where the leader of a controller's quorum shows its status, and its folder.

    Args:
        file: of a controller.
        own: whether it has to be the leader's; else the folder is None if it is another one's.

    Raises:
        typer.Exit: it is not, or no controller of that quorum answers.
    """
    nodes = asked_nodes([file], [])
    try:
        shown = nodes.once()
    except (OSError, ValueError) as error:
        raise fail(nodes.failed(error), ExitCode.UNREACHABLE) from error
    folder = nodes.folder_of(shown)
    if own and folder is None:
        why = f"controller {shown.found.get('node_id')} leads, whose file {file} is not"
        raise fail(f"{why}: run it with the leader's file, on its machine", ExitCode.WRONG)
    return shown.url, folder


def _with_next(asked: AskedNodes, shown: NodeAnswer) -> str:
    """The document with ``next``; one of another release as it is."""
    found = shown.found
    leader = "" if shown.leads else asked.leader_url(shown)
    try:
        broker = found.get("role") == "broker"
        option, files = asked.option(shown), asked.files
        steps = () if broker else next_steps(found, asked=option, leader_url=leader, files=files)
    except UNREAD:
        return shown.body
    return msgspec.json.encode({**found, "next": steps_as_json(steps)}).decode()


def _text(asked: AskedNodes, shown: NodeAnswer, *, plain: bool) -> str:
    """What a person reads; what to type next asks the same nodes, without a login in an address.

    Raises:
        ValueError: it has another form.
    """
    console = console_of(plain=plain)
    leader = "" if shown.leads else asked.leader_url(shown)
    try:
        with console.capture() as printed:
            show(shown.body, console, asked.option(shown), leader, asked.files)
            for one in asked.unreached:
                console.print(printable(one), soft_wrap=True)
    except UNREAD as error:
        raise ValueError(misread(msgspec.json.decode(shown.body))) from error
    return "".join(f"{line.rstrip()}\n" for line in printed.get().splitlines())


def _phase(body: str) -> str:
    found = msgspec.json.decode(body)
    try:
        return phase_of(found)
    except UNREAD as error:
        raise ValueError(misread(found)) from error


def shown_phase(found: Mapping[str, Any]) -> str:
    """The phase in the words of this release, as far as the node shows it."""
    phase = found.get("phase")
    return (
        str(phase["text"]) if isinstance(phase, dict) and "text" in phase else phase_of(dict(found))
    )


class _Hopeless:
    """Whether a migration can begin without an operator, judged from one look to the next."""

    def __init__(self) -> None:
        self._led: Reasons = frozenset()
        self._shown: Reasons = frozenset()
        self._since_epoch = 0

    def seen(self, body: str, *, last: bool) -> bool:
        """Take the newest look; whether waiting is in vain.

        A reason that stands for a moment, as at the start of a term, ends nothing. One that follows
        may wait for what another voter does not: it counts where leader after leader gives up.
        """
        found = msgspec.json.decode(body)
        try:
            leads = found.get("leader_id", found["node_id"]) == found["node_id"]
            epoch, shown = found.get("leader_epoch", 0), _fatal(found)
        except UNREAD as error:
            raise ValueError(misread(found)) from error
        before, self._led = self._led, shown if leads else frozenset()
        if not shown & self._shown:
            self._since_epoch = epoch
        self._shown = shown
        given_up = bool(shown) and epoch - self._since_epoch >= EPOCHS_GIVEN_UP
        return bool(self._led and (last or self._led & before)) or given_up


def _fatal(found: dict[str, Any]) -> Reasons:
    """What keeps a migration from its beginning and does not go by waiting."""
    if phase_of(found) not in BEFORE:
        return frozenset()
    waiting = (found.get("migration") or {}).get("waiting", ())
    return frozenset((one["why"], one["subject"]) for one in waiting if one.get("fatal"))


def misread(found: dict[str, Any]) -> str:
    """Why what a node shows cannot be read."""
    if found["schema"] in SCHEMAS:
        return f"{NOT_OURS}: its answer does not have the form of {found['schema']}"
    known = " and ".join(SCHEMAS)
    return (
        f"it shows {plain(found['schema'])}, as another release does, and this one reads {known}: "
        "use the kraft-bridge of its release"
    )


def _awaited(
    asked: AskedNodes, name: str, wanted: str, patience_s: float
) -> tuple[NodeAnswer, ExitCode]:
    """Ask once a second until the phase is there, or the time is over; the last answer and a code.

    ``name``: as it was typed; ``wanted``: what it stands for.

    A controller that does not answer for a while, as it restarts, is asked again.

    Raises:
        OSError, ValueError: at the end nothing answered, or not a controller.
    """
    end = time.monotonic() + patience_s
    printed = ""
    hopeless = _Hopeless()
    while True:
        left = end - time.monotonic()
        try:
            shown = asked.once()
            phase = _phase(shown.body)
        except (OSError, ValueError) as error:
            if left <= 0:
                raise
            if str(error) != printed:
                printed = str(error)
                again = f"asked again, for {left:.0f} s at most"
                typer.echo(printable(f"{asked.name}{printed}; {again}"), err=True)
        else:
            if reached(phase, wanted):
                return shown, ExitCode.DONE
            if hopeless.seen(shown.body, last=left <= 0) or phase in STUCK:
                return shown, ExitCode.FOUND
            if left <= 0:
                return shown, ExitCode.NOT_YET
            if phase != printed:
                typer.echo(printable(f"{shown_phase(shown.found)}; waiting for {name}"), err=True)
                printed = phase
        time.sleep(max(0.0, min(POLL_S, left)))


class AddressError(ValueError):
    """The text is not the address of an HTTP server."""


def fetch(url: str) -> str:
    """The JSON text of ``/status``.

    Raises:
        AddressError: not an http address.
        OSError: nothing answers there.
        ValueError: the answer is not from a kraft-bridge controller or broker.
    """
    check_address(url)
    text = ask(page_of(url, "status")).decode()
    try:
        document = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"{NOT_OURS}: {error}") from error
    if not isinstance(document, dict) or "schema" not in document:
        raise ValueError(NOT_OURS)
    return text


def status_of(url: str) -> dict[str, Any]:
    """What a node of this release shows.

    Raises:
        AddressError, OSError: as :func:`fetch`.
        ValueError: the answer is from something else, or from another release.
    """
    found: dict[str, Any] = msgspec.json.decode(fetch(url))
    if found["schema"] not in SCHEMAS:
        raise OtherReleaseError(misread(found))
    return found


class OtherReleaseError(ValueError):
    """A node answers, in a form that is not known here."""


def check_address(url: str) -> None:
    """Check the text of an option.

    Raises:
        AddressError: not an http address; a user and password in it are not shown.
    """
    try:
        parts = urllib.parse.urlsplit(url)
        good = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good or any(one.isspace() or not one.isprintable() for one in url):
        hint = f": write http://{url}" if re.fullmatch(r"[\w.-]+:\d{1,5}/?", url) else ""
        raise AddressError(f"{without_login(url)!r} is not an http address{hint}")


# Sending a node's token: to this machine alone, through no proxy, and to no other address.
#
# Whoever has the token of a folder may change the cluster. The token is sent in plain text, so it
# must not leave the machine, whatever ``--url`` names or a server there answers (see
# :mod:`emulator.commands.asking`).


def check_local(url: str) -> None:
    """Check that an address is of this machine.

    Raises:
        AddressError: not an http address, or one of elsewhere.

    >>> check_local("http://localhost:9404")
    """
    check_address(url)
    host = urllib.parse.urlsplit(url).hostname or ""
    try:
        local = ipaddress.ip_address(host).is_loopback
    except ValueError:
        local = host == "localhost"
    if not local:
        raise AddressError(
            f"{host} is not this machine, and the token is not sent elsewhere: run the command on "
            "the machine of the controller, with 127.0.0.1 or localhost"
        )
