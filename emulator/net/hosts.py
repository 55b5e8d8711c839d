"""Whether a text can be the host of a connection at all; no name is looked up here."""

from __future__ import annotations


def host_fault(host: str) -> str | None:
    """Why nobody can ever connect to a host of that name; None when it can be tried.

    A name that cannot be written as DNS labels raises UnicodeError in every resolver of Python: an
    empty label, one above 63 bytes, or characters that no label has. An empty text is no fault: a
    resolver answers that there is no such host. IP addresses pass.

    >>> host_fault("broker-1.example")
    >>> host_fault("a..b")
    'it is no host name: a label is empty, longer than 63 bytes or not of DNS characters'
    """
    if "\0" in host:
        return "it holds a NUL"
    try:
        host.encode("idna")
    except UnicodeError:
        return "it is no host name: a label is empty, longer than 63 bytes or not of DNS characters"
    return None
