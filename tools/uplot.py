"""uPlot, which draws the pictures of reports: its released files, from its npm package.

``python -m tools.uplot [VERSION]`` writes them, with licence, version and digests; without a
version, the one that is here.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import tempfile
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).parents[1] / "bench" / "report" / "templates"
NOTES: Final = FOLDER / "uPlot.json"
FILES: Final = {
    "uPlot.LICENSE": "package/LICENSE",
    "uPlot.iife.min.js": "package/dist/uPlot.iife.min.js",
    "uPlot.min.css": "package/dist/uPlot.min.css",
}
"""Name here -> name in the package."""


def notes() -> dict[str, Any]:
    """What is here: ``package``, ``version``, ``licence``, and ``sha256`` by name of the file."""
    found: dict[str, Any] = json.loads(NOTES.read_text())
    return found


def released(version: str) -> tuple[str, dict[str, bytes]]:
    """Licence and files of a version, by npm as it is set up on this machine.

    Raises:
        subprocess.CalledProcessError: npm failed; it has printed why.
    """
    with tempfile.TemporaryDirectory() as folder:
        pack = ["npm", "pack", "--silent", f"{notes()['package']}@{version}"]
        name = subprocess.run(pack, cwd=folder, check=True, stdout=subprocess.PIPE, text=True)
        with tarfile.open(Path(folder, name.stdout.split()[-1])) as package:

            def content(file: str) -> bytes:
                opened = package.extractfile(file)
                assert opened is not None
                return opened.read()

            about = json.loads(content("package/package.json"))
            return about["license"], {here: content(there) for here, there in FILES.items()}


def main(version: str | None = None) -> None:
    """Write the files of a version."""
    version = version or notes()["version"]
    licence, files = released(version)
    for name, content in files.items():
        (FOLDER / name).write_bytes(content)
    digests = {name: sha256(content).hexdigest() for name, content in files.items()}
    about = {"package": notes()["package"], "version": version, "licence": licence}
    NOTES.write_text(json.dumps(about | {"sha256": digests}, indent=2) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
