"""Reading a properties file for a verb: the configuration, or what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final, TypeVar

from emulator.config import properties
from emulator.config.load import ConfigError
from emulator.io.jaas_file import inlined

T = TypeVar("T")
BYTES_MAX: Final = 16 * 1024 * 1024
"""No properties file is longer; a device, such as /dev/zero, never ends."""

_UTF8: Final = (
    "written in UTF-8, and read as ISO 8859-1, as Kafka does; write \\uXXXX for what is not ASCII"
)


def text_of(path: Path) -> str:
    """The text of a properties file.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no text, or too long.
    """
    with path.open("rb") as file:
        data = file.read(BYTES_MAX + 1)
    if len(data) > BYTES_MAX:
        raise ValueError(f"more than {BYTES_MAX} bytes: not a properties file")
    return properties.decoded(data)


def read(
    path: Path,
    overrides: Iterable[str],
    load: Callable[[Mapping[str, str]], tuple[T, tuple[str, ...]]],
) -> tuple[T | None, list[str]]:
    """Read a properties file.

    Args:
        path: the file.
        overrides: ``key=value`` strings, which come first.
        load: makes the configuration and warnings of properties; raises ConfigError.

    Returns:
        The configuration, None if it cannot be used; and lines for stderr.
    """
    try:
        text = text_of(path)
        raw = properties.parse(text, overrides)
        config, warnings = load(inlined(raw))
    except ConfigError as error:
        return None, [f"{path}: {problem}" for problem in (*error.warnings, *error.problems)]
    except OSError as error:
        return None, [f"kraft-bridge: {path}: {error.strerror or error}"]
    except ValueError as error:
        return None, [f"kraft-bridge: {path}: {error}"]
    warnings = (*(f"{key}: {_UTF8}" for key in properties.in_utf8(text)), *warnings)
    return config, [f"{path}: {warning}" for warning in warnings]
