"""Reading a properties file for a verb: the configuration, or what is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

from emulator.config import properties
from emulator.config.load import ConfigError
from emulator.config.reading import name_list
from emulator.io.jaas_file import inlined

T = TypeVar("T")
BYTES_MAX: Final = 16 * 1024 * 1024
"""No properties file is longer; a device, such as /dev/zero, never ends."""
REPEATED_MAX: Final = 10
"""So many keys that are there several times are named."""
WARNING: Final = "warning: "
_KEY: Final = re.compile(r"[\w.-]*\w")
"""The key with which a sentence about it begins."""
_SHELLS: Final = ("$", '"', "'")
"""What a shell takes out of a name, and no properties file does; ``~`` at the beginning."""
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
        given = properties.parse("", overrides)
    except ValueError as error:
        return None, [f"kraft-bridge: -X: {error}"]

    def sourced(line: str, mark: str = "") -> str:
        return f"{source_of(line, path, given)}: {mark}{line}"

    before: list[str] = []
    try:
        text = text_of(path)
        several = {
            key: lines for key, lines in properties.repeated(text).items() if key not in given
        }
        before = [*_repeated(several)]
        raw = properties.parse(text) | given
        before += _taken_literally(raw)
        config, warnings = load(inlined(raw))
    except ConfigError as error:
        warned = [sourced(line, WARNING) for line in (*before, *error.warnings)]
        return None, [*warned, *map(sourced, error.problems)]
    except OSError as error:
        return None, [f"kraft-bridge: {path}: {error.strerror or error}"]
    except ValueError as error:
        return None, [f"kraft-bridge: {sourced(str(error))}"]
    warnings = (*(f"{key}: {_UTF8}" for key in properties.in_utf8(text)), *before, *warnings)
    return config, [sourced(line, WARNING) for line in warnings]


def source_of(line: str, path: Path | None, given: Iterable[str]) -> str:
    """The file, or ``-X`` if the key with which a sentence begins was given there.

    >>> source_of("node.id=x: no number", Path("f"), ["node.id"])
    '-X'
    >>> source_of("node.id=x: no number", Path("f"), ["log.dirs"])
    'f'
    """
    key = _KEY.match(line)
    return str(path) if path is not None and (key is None or key[0] not in given) else "-X"


def _repeated(lines_of: Mapping[str, Sequence[int]]) -> Iterator[str]:
    """Warnings about keys that are there several times: of very many, the first.

    >>> [*_repeated({"a": [1, 4], "b": [*range(2, 90)]})]
    ['a stands twice (lines 1 and 4): the last one counts', \
'b stands 88 times (lines 2, 3, 4 … and 89): the last one counts']
    """
    for key, lines in [*lines_of.items()][:REPEATED_MAX]:
        times = "twice" if len(lines) == 2 else f"{len(lines)} times"
        some = ", ".join(map(str, lines[:-1][:3])) + (" …" if lines[4:] else "")
        yield f"{key} stands {times} (lines {some} and {lines[-1]}): the last one counts"
    if (more := len(lines_of) - REPEATED_MAX) > 0:
        yield f"{more} more keys stand several times: the last one of each counts"


def _taken_literally(raw: Mapping[str, str]) -> Iterator[str]:
    """Warnings about folders that are elsewhere than they seem to be: Kafka reads them so too.

    >>> list(_taken_literally({"log.dirs": "/data/kraft"}))
    []
    >>> next(_taken_literally({"log.dirs": "~/data"})).partition(" is ")[0]
    'log.dirs: ~/data'
    """
    for key in ("metadata.log.dir", "log.dirs", "log.dir"):
        for folder in name_list(raw.get(key, "")):
            strange = next((one for one in _SHELLS if one in folder), "")
            if strange or folder.startswith("~"):
                what = f"{strange or '~'} is taken literally, as Kafka does"
                yield f"{key}: {folder} is {Path(folder).absolute()}: {what}"
            elif not Path(folder).is_absolute():
                yield f"{key}: {folder} is {Path(folder).absolute()}"
