"""Checks whether a text can be the host of a connection; names are not looked up."""

from __future__ import annotations


def host_fault(host: str) -> str | None:
    """Why no connection to such a host is possible; None if it can be tried.

    A name that cannot be written as DNS labels raises UnicodeError in every resolver of Python: an
    empty label, one above 63 bytes, or characters that no label has. An empty text is accepted: a
    resolver answers that there is no such host. IP addresses are accepted.

    >>> host_fault("broker-1.example")
    >>> host_fault("a..b")
    'it is not a host name: a label is empty, longer than 63 bytes or not of DNS characters'
    """
    if "\0" in host:
        return "it contains a NUL character"
    try:
        host.encode("idna")
    except UnicodeError:
        return (
            "it is not a host name: a label is empty, longer than 63 bytes or not of DNS characters"
        )
    return None
