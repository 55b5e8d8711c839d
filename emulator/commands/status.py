"""``kraft-bridge status``: ask a controller or a broker for ``/status``, print it for a person."""

from __future__ import annotations

import ipaddress
import math
import re
import shlex
import time
import urllib.parse
from typing import Annotated, Any, Final, TypeAlias

import msgspec
import typer
from rich.console import Console

from emulator.commands.asking import NOT_OURS, ask, page_of, plain, unanswered, without_login
from emulator.commands.common import Json, fail
from emulator.commands.exits import ExitCode
from emulator.commands.status_next import BEFORE, STUCK, phase_of, reached, waited_for
from emulator.commands.status_shown import show
from emulator.io.printable import printable, printable_json
from emulator.migration.phases import WAIT_FOR
from emulator.operations.next_steps import as_json as steps_as_json
from emulator.operations.next_steps import next_steps

DEFAULT_URL: Final = "http://127.0.0.1:9404"
POLL_S = 1.0
"""Between two looks of --wait."""
SCHEMAS: Final = ("status/4", "broker-status/2")
"""What a controller and a broker of this release show."""
Reasons: TypeAlias = frozenset[tuple[str, str]]
"""Each by kind and subject."""
EPOCHS_GIVEN_UP: Final = 4
"""So many epochs pass, under a reason that a follower shows too, only where no voter can lead."""
UNREAD: Final = (KeyError, TypeError, AttributeError, IndexError, ValueError)
"""What reading an answer of another form ends with."""


def status(
    url: Annotated[
        str, typer.Option("--url", help="The node's kraftbridge.metrics.port, http://…")
    ] = DEFAULT_URL,
    wait: Annotated[
        str | None,
        typer.Option(help=f"Wait for a phase or a later one: {', '.join(WAIT_FOR)}."),
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(min=0, max=10_000_000, help="With --wait: seconds; else 60.")
    ] = None,
    *,
    as_json: Json = False,
) -> None:
    """Show the phase of the migration, missing and refused brokers, the lag, and what to do next.

    With --wait it ends with code 0 as soon as the phase is reached, with 1 if it cannot be reached
    without an operator, and when the time is over with 5, or with 3 if nobody answers then.
    """
    if timeout is not None and math.isnan(timeout):
        raise fail("--timeout must be a number", ExitCode.WRONG)
    if wait is None and timeout is not None:
        raise fail("--timeout needs --wait", ExitCode.WRONG)
    wanted = _wanted(wait)
    try:
        if wait is None:
            body, code = fetch(url), ExitCode.DONE
        else:
            patience = 60.0 if timeout is None else timeout
            body, code = _awaited(url, wait.lower(), wanted, patience)
        text = printable_json(_with_next(body, url)) if as_json else _text(body, url)
    except AddressError as error:
        raise fail(f"--url {error}", ExitCode.WRONG) from error
    except (OSError, ValueError) as error:
        raise fail(unanswered(page_of(url, "status"), error), ExitCode.UNREACHABLE) from error
    typer.echo(text, nl=False)
    raise typer.Exit(code)


def _wanted(wait: str | None) -> str:
    """What ``--wait`` stands for; a name of earlier releases is taken, with a hint."""
    if wait is None:
        return ""
    try:
        wanted, hint = waited_for(wait)
    except ValueError as error:
        raise fail(f"--wait {wait}: {error}", ExitCode.WRONG) from error
    if hint:
        typer.echo(f"kraft-bridge: --wait {hint}", err=True)
    return wanted


def asking(url: str) -> str:
    """The option with which what is typed next asks the same node; empty at the default.

    A login in the address is left out.
    """
    return "" if url == DEFAULT_URL else f" --url {shlex.quote(without_login(url))}"


def _with_next(body: str, url: str) -> str:
    """The document with ``next``; one of another release as it is."""
    found = msgspec.json.decode(body)
    try:
        broker = found.get("role") == "broker"
        steps = () if broker else next_steps(found, asked=asking(url))
    except UNREAD:
        return body
    return msgspec.json.encode(found | {"next": steps_as_json(steps)}).decode()


def _text(body: str, url: str) -> str:
    """What a person reads; what to type next asks the same node, without a login in its address.

    Raises:
        ValueError: it has another form.
    """
    console = Console(markup=False, emoji=False)  # texts of others are no styles
    try:
        with console.capture() as shown:
            show(body, console, asking(url))
    except UNREAD as error:
        raise ValueError(misread(msgspec.json.decode(body))) from error
    return shown.get()


def _phase(body: str) -> str:
    found = msgspec.json.decode(body)
    try:
        return phase_of(found)
    except UNREAD as error:
        raise ValueError(misread(found)) from error


def shown_phase(body: str) -> str:
    """The phase in the words of this release, as far as the node shows it."""
    found = msgspec.json.decode(body)
    phase = found.get("phase")
    return str(phase["text"]) if isinstance(phase, dict) and "text" in phase else phase_of(found)


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
        return f"{NOT_OURS}: what it shows has not the form of {found['schema']}"
    known = " and ".join(SCHEMAS)
    return (
        f"it shows {plain(found['schema'])}, as another release does, and this one reads {known}: "
        "use the kraft-bridge of its release"
    )


def _awaited(url: str, name: str, wanted: str, patience_s: float) -> tuple[str, ExitCode]:
    """Ask once a second until the phase is there, or the time is over; the last answer and a code.

    ``name``: as it was typed; ``wanted``: what it stands for.

    A controller that does not answer for a while, as it restarts, is asked again.

    Raises:
        AddressError: not an http address.
        OSError, ValueError: at the end nothing answered, or not a controller.
    """
    end = time.monotonic() + patience_s
    printed = ""
    hopeless = _Hopeless()
    while True:
        left = end - time.monotonic()
        try:
            body = fetch(url)
            phase = _phase(body)
        except AddressError:
            raise
        except (OSError, ValueError) as error:
            if left <= 0:
                raise
            if str(error) != printed:
                printed = str(error)
                again = f"asked again, for {left:.0f} s at most"
                where = without_login(page_of(url, "status"))
                typer.echo(printable(f"{where}: {printed}; {again}"), err=True)
        else:
            if reached(phase, wanted):
                return body, ExitCode.DONE
            if hopeless.seen(body, last=left <= 0) or phase in STUCK:
                return body, ExitCode.FOUND
            if left <= 0:
                return body, ExitCode.NOT_YET
            if phase != printed:
                typer.echo(printable(f"{shown_phase(body)}; waiting for {name}"), err=True)
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
