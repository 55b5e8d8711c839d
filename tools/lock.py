"""Write requirements.lock anew from pyproject.toml: ``python -m tools.lock``, for maintainers.

Needs uv on PATH. The lock holds names, versions and hashes; never where to get them.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def main() -> str | None:
    """Resolve for every platform and every extra; returns one sentence on failure."""
    uv = shutil.which("uv")
    if uv is None:
        return "uv is not on PATH: install it and run this again"
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(ROOT / "pyproject.toml", folder)
        export = ["export", "--format", "requirements.txt", "--no-emit-project", "--all-extras"]
        shape = ["--all-groups", "--no-annotate", "--no-header", "--python", sys.executable]
        done = subprocess.run(
            [uv, "--quiet", *export, *shape],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode != 0:
        return f"uv could not resolve: {done.stderr.strip()}"
    if "://" in done.stdout:
        return "The lock would name a host; nothing was written"
    (ROOT / "requirements.lock").write_text(done.stdout)
    return None


if __name__ == "__main__":
    sys.exit(main())
