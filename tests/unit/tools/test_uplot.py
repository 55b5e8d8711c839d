"""The library that draws a report's pictures is the one that was released."""

from __future__ import annotations

import shutil
from hashlib import sha256

import pytest

from tools import uplot


def test_the_files_have_the_digests_that_are_noted() -> None:
    noted = uplot.notes()
    here = {name: sha256((uplot.FOLDER / name).read_bytes()).hexdigest() for name in uplot.FILES}
    assert here == noted["sha256"]
    assert f"(v{noted['version']})" in (uplot.FOLDER / "uPlot.iife.min.js").read_text()[:100]
    assert noted["licence"] in (uplot.FOLDER / "uPlot.LICENSE").read_text()


@pytest.mark.skipif(not shutil.which("npm"), reason="this machine has no npm")
def test_the_files_are_those_of_the_npm_package() -> None:
    noted = uplot.notes()
    licence, files = uplot.released(noted["version"])
    assert licence == noted["licence"]
    assert {name: sha256(content).hexdigest() for name, content in files.items()} == (
        noted["sha256"]
    )
