"""Shared by the verbs: options, reading the configuration, printing a failure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from emulator.commands import configuration
from emulator.config import load as config_module

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
    config, said = configuration.read(path, overrides or (), load)
    for line in said:
        typer.echo(line, err=True)
    if config is None:
        raise typer.Exit(2)
    return config
