"""Asking a node over HTTP: through no proxy, to no other address, with bounds in time and size.

What answers at a port may be anything. The limit of a connection is for each of its parts alone, so
an answer that drips would never end: all of it is read in a thread, which is given up.
"""

from __future__ import annotations

import errno
import http.client
import os
import queue
import re
import threading
import urllib.error
import urllib.request
from typing import Any, Final

ANSWER_S: Final = 20.0
"""For an answer, from the name of the host to the last byte."""
TIMEOUT_S: Final = 5.0
"""For each part of it."""
ANSWER_BYTES_MAX: Final = 64 << 20
"""Far more than a controller shows of any cluster."""
REFUSAL_BYTES_MAX: Final = 10_000
SHOWN_MAX: Final = 100
"""Characters of a text of others in a message."""
NO_NODE: Final = (
    "is the controller running? Its log has the url in the line 'metrics and status', and "
    "kraft-bridge status -c FILE finds it by its file"
)
NOT_OURS: Final = "this is not the kraftbridge.metrics.port of a controller or broker"


class AnswerError(ValueError):
    """An answer that is not 200, and the text that came with it."""

    def __init__(self, code: int, reason: object, text: str) -> None:
        super().__init__(f"{NOT_OURS}: {code} {plain(reason)}")
        self.code = code
        self.reason = plain(reason)
        self.text = text


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """An answer that names another address is an error."""

    def redirect_request(self, *_args: Any) -> None:
        """Follow none."""


_OPENER: Final = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect())


def ask(request: str | urllib.request.Request) -> bytes:
    """The body of what is answered.

    Args:
        request: its address was checked by :func:`emulator.commands.status.check_address`.

    Raises:
        AnswerError: it is not 200.
        OSError: nothing answers, or not to its end in time.
        ValueError: it is no HTTP, or too large.
    """
    answers: queue.SimpleQueue[bytes | Exception] = queue.SimpleQueue()

    def run() -> None:
        try:
            answers.put(_answer(request))
        except Exception as error:  # noqa: BLE001 - the thread that waits raises it
            answers.put(error)

    threading.Thread(target=run, daemon=True).start()
    try:
        found = answers.get(timeout=ANSWER_S)
    except queue.Empty:
        raise OSError(f"the answer has not ended after {ANSWER_S:g} s") from None
    if isinstance(found, Exception):
        raise found
    return found


def _answer(request: str | urllib.request.Request) -> bytes:
    try:
        with _OPENER.open(request, timeout=TIMEOUT_S) as answer:
            body: bytes = answer.read(ANSWER_BYTES_MAX + 1)
    except urllib.error.HTTPError as error:
        with error:
            text = error.read(REFUSAL_BYTES_MAX).decode(errors="replace").strip()
        raise AnswerError(error.code, error.reason, text) from error
    except urllib.error.URLError as error:
        raise OSError(getattr(error.reason, "strerror", None) or str(error.reason)) from error
    except http.client.HTTPException as error:
        raise ValueError(f"{NOT_OURS}: no HTTP") from error
    if len(body) > ANSWER_BYTES_MAX:
        raise ValueError(f"{NOT_OURS}: it sends more than {ANSWER_BYTES_MAX} bytes")
    return body


def unanswered(url: str, error: Exception) -> str:
    """Why an address gave no answer, and what to do if no process listens there.

    >>> unanswered("http://h:1", OSError("Connection refused"))[:48]
    'http://h:1: Connection refused: is the controlle'
    """
    refused = str(error) == os.strerror(errno.ECONNREFUSED)
    return f"{without_login(url)}: {error}{f': {NO_NODE}' if refused else ''}"


def page_of(url: str, name: str) -> str:
    """The address of one of a node's pages; its own may be given as that of its status.

    >>> page_of("http://h:1/", "status"), page_of("http://h:1/status", "finalise")
    ('http://h:1/status', 'http://h:1/finalise')
    """
    return f"{url.rstrip('/').removesuffix('/status')}/{name}"


def without_login(url: str) -> str:
    """An address as it may be shown: without a user, a password and a query, even where it is none.

    >>> without_login("http://me:secret@host:1/status"), without_login("me:se/cret@host:1")
    ('http://host:1/status', 'host:1')
    >>> without_login("http://host:1/?token=secret")
    'http://host:1/'
    """
    scheme = re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*://", url)
    head = scheme[0] if scheme else ""
    return head + re.split(r"[?#]", url[len(head) :].rpartition("@")[2])[0]


def plain(text: object, length: int = SHOWN_MAX) -> str:
    """A text of others in one line, without what a terminal obeys.

    >>> plain("a" + chr(27) + "[2J")
    'a?[2J'
    """
    return "".join(one if one.isprintable() else "?" for one in str(text)[:length])
