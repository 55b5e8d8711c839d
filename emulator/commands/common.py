"""Shared by the verbs: options, reading the configuration, printing a failure."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from emulator.config import bench_only, properties
from emulator.config import load as config_module
from emulator.io.jaas_file import inlined

T = TypeVar("T")

ConfigFile = Annotated[Path, typer.Option("--config", "-c", help="A Kafka server.properties.")]
Override = Annotated[list[str] | None, typer.Option("-X", help="key=value; overrides the file.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


def fail(problem: str, code: int = 1) -> typer.Exit:
    """Print an error to stderr; the caller raises the result."""
    typer.echo(f"kraft-bridge: {problem}", err=True)
    return typer.Exit(code)


def load_config(path: Path, overrides: list[str] | None) -> config_module.Config:
    """Read a controller's properties file; see :func:`configured`."""
    return configured(path, overrides, config_module.load)


def configured(
    path: Path,
    overrides: list[str] | None,
    load: Callable[[Mapping[str, str]], tuple[T, tuple[str, ...]]],
) -> T:
    """Read a properties file; warnings go to stderr, problems end the command with code 2."""
    try:
        raw = properties.parse(path.read_text(encoding="utf-8"), overrides or ())
        refused = bench_only.refusal(raw, os.environ.get(bench_only.MARKER))
        if refused:
            raise fail(f"{path}: {refused}", 2)
        config, warnings = load(inlined(raw))
    except config_module.ConfigError as error:
        for problem in (*error.warnings, *error.problems):
            typer.echo(f"{path}: {problem}", err=True)
        raise typer.Exit(2) from error
    except (OSError, ValueError) as error:
        raise fail(f"{path}: {error}", 2) from error
    for warning in warnings:
        typer.echo(f"{path}: {warning}", err=True)
    return config
