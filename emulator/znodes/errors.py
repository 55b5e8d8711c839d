"""The one error of this package."""

from __future__ import annotations


class ZnodeError(ValueError):
    """A znode's data is malformed for its path.

    ``path`` names it, ``why`` says what is wrong.
    """

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path}: {why}")
        self.path = path
        self.why = why
