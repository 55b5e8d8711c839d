"""Writes the commit that is built into the wheel and the sdist, for ``kraft-bridge --version``.

In a wheel it is ``extra_metadata/commit`` of the ``.dist-info`` folder, in an sdist ``COMMIT``. A
wheel that is built from an sdist takes it from there. An editable install has none: its code
changes, so the program asks git then.
"""

import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

IN_SDIST = "COMMIT"


def commit_of(root: Path) -> str:
    """The commit of a checkout, with `` and changes`` if files differ; empty if not known."""
    if (root / ".git").exists():
        git = ["git", "describe", "--always", "--exclude=*", "--abbrev=40", "--dirty= and changes"]
        try:
            done = subprocess.run(git, cwd=root, capture_output=True, text=True, check=False)
        except OSError:
            return ""
        return done.stdout.strip()
    written = root / IN_SDIST
    return written.read_text().strip() if written.exists() else ""


class CommitHook(BuildHookInterface[Any]):
    """Hatchling calls it before a wheel or an sdist is written."""

    PLUGIN_NAME = "commit"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the file with the commit; none if it is not known.

        Args:
            version: of the build: ``standard`` or ``editable``.
            build_data: what hatchling adds to the archive.
        """
        commit = commit_of(Path(self.root))
        if not commit or version == "editable":
            return
        self._folder = tempfile.TemporaryDirectory()
        file = Path(self._folder.name) / "commit"
        file.write_text(commit + "\n")
        if self.target_name == "wheel":
            build_data["extra_metadata"][str(file)] = "commit"
        elif not (Path(self.root) / IN_SDIST).exists():
            build_data["force_include"][str(file)] = IN_SDIST

    def finalize(self, _version: str, _build_data: dict[str, Any], _artifact: str) -> None:
        """Remove the temporary file."""
        if hasattr(self, "_folder"):
            self._folder.cleanup()
