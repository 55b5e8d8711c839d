"""Options of a part of ``bench.micro``, as its command line reads them."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any


def asked_of(part: Any, *arguments: str) -> Namespace:
    """Those of one part; ``--patience`` is of all parts."""
    parser = ArgumentParser()
    parser.add_argument("--patience", type=float, default=0.0)
    part.options(parser)
    return parser.parse_args(arguments)
