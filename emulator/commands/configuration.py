"""Reading a properties file for a verb: the configuration, or what is wrong with it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeVar

from emulator.config import bench_only, properties
from emulator.config.load import ConfigError
from emulator.io.jaas_file import inlined

T = TypeVar("T")


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
        raw = properties.parse(path.read_text(encoding="utf-8"), overrides)
        refused = bench_only.refusal(raw, os.environ.get(bench_only.MARKER))
        if refused:
            return None, [f"kraft-bridge: {path}: {refused}"]
        config, warnings = load(inlined(raw))
    except ConfigError as error:
        return None, [f"{path}: {problem}" for problem in (*error.warnings, *error.problems)]
    except (OSError, ValueError) as error:
        return None, [f"kraft-bridge: {path}: {error}"]
    return config, [f"{path}: {warning}" for warning in warnings]
