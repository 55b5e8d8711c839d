"""Build the site of the docs: ``python -m tools.site``; exit code 1: a page or a link is wrong.

The pages stay as GitHub shows them. A staged copy of each goes to Sphinx with MyST, which reads
Markdown as GitHub does, in an environment of its own (packaging/site.txt). Warnings are errors.
Then every link and every anchor of what was built is looked up, and the shell blocks that need no
Java are run (tools.blocks). The result is a folder for this release, with ``llms.txt`` and the
Markdown of each page, and ``versions.json`` beside it.
"""

import argparse
import hashlib
import html
import json
import os
import re
import shutil
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from tools import blocks
from tools.package import ENVIRONMENTS, PackageError, environment, run
from tools.recorded import ROOT

NAV: Final[Mapping[str, tuple[str, ...]]] = {
    "Tutorial": (
        "compose/README.md",
        "docs/your-own-cluster.md",
        "docs/rehearse.md",
        "docs/after-rehearsing.md",
        "docs/clone.md",
    ),
    "How to": (
        "docs/runbook.md",
        "docs/rollback.md",
        "docs/finalising.md",
        "docs/troubleshooting.md",
        "docs/quorum.md",
        "docs/secure.md",
        "docs/service.md",
        "docs/testing.md",
        "docs/conformance.md",
        "docs/broker.md",
        "docs/fleets.md",
        "docs/bench.md",
    ),
    "Reference": (
        "docs/README.md",
        "docs/command-line.md",
        "docs/verbs.md",
        "docs/preflight.md",
        "docs/status.md",
        "docs/json.md",
        "docs/configuration.md",
        "docs/metrics.md",
        "docs/log-events.md",
        "docs/apis.md",
        "docs/divergence.md",
        "docs/cases.md",
        "docs/glossary.md",
    ),
    "Explanation": (
        "docs/phases.md",
        "docs/rehearsals.md",
        "docs/blocking.md",
        "docs/benchmarks.md",
        "SECURITY.md",
    ),
    "For contributors": (
        "CONTRIBUTING.md",
        "ARCHITECTURE.md",
        "docs/dev/requirements.md",
        "docs/dev/migration-states.md",
        "docs/dev/kips.md",
        "docs/dev/life.md",
        "docs/dev/matrix.md",
        "docs/dev/chaos.md",
        "docs/dev/fuzz.md",
        "docs/dev/kafka-tests.md",
        "docs/dev/simulation.md",
        "docs/dev/mutation.md",
        "docs/dev/goals.md",
        "docs/changes/README.md",
        "CHANGELOG.md",
    ),
}
"""Heading -> pages of the repository. README.md is the first page."""
HOME: Final = "README.md"
PATH: Final = (
    HOME,
    "compose/README.md",
    "docs/your-own-cluster.md",
    "docs/rehearse.md",
    "docs/after-rehearsing.md",
    "docs/runbook.md",
    "docs/rollback.md",
    "docs/finalising.md",
)
"""What a newcomer reads, in this order: each page links to the one before and the one behind it."""
_ELSEWHERE: Final = {
    HOME: "index.md",
    "docs/README.md": "pages.md",
    "compose/README.md": "containers.md",
    "SECURITY.md": "security.md",
    "CONTRIBUTING.md": "dev/contributing.md",
    "ARCHITECTURE.md": "dev/architecture.md",
    "CHANGELOG.md": "changelog.md",
    "docs/changes/README.md": "dev/changes.md",
}
_LINK: Final = re.compile(r"(\]\(|\b(?:src|srcset|href)=\")(?![a-z]+:|#)([^)#\s\"]+)")
_FENCE: Final = re.compile(r"^( *```.*?^ *```$)", re.MULTILINE | re.DOTALL)
_MERMAID: Final = re.compile(r"^```mermaid\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MERMAID: Final = ("12.3.0", "336df803d87a38b70a01e736e666c8f7601d2ce42f5e47c8fafe5d721074b9a3")
"""The release that draws diagrams, and the SHA-256 of its one file; it is part of the site, so that
no page asks another server."""
_ALERT: Final = re.compile(r"^> \[!(\w+)\]\n((?:> .*\n)+)", re.MULTILINE)
"""GitHub's box with a caution or a note."""


def pages() -> list[str]:
    """Every page of the site, as the repository names it."""
    return [HOME, *(page for section in NAV.values() for page in section)]


def place(page: str) -> str:
    """Where a file of the repository is on the site.

    >>> place("docs/runbook.md"), place("compose/README.md")
    ('runbook.md', 'containers.md')
    """
    return _ELSEWHERE.get(page, page.removeprefix("docs/"))


def staged(page: str, text: str, known: set[str], files: set[str]) -> str:
    """The Markdown of a page with its links as on the site.

    Args:
        page: its path in the repository.
        text: its Markdown.
        known: pages of the site.
        files: what is linked to and is no page is added to it, as paths in the repository.

    Raises:
        PackageError: a link leads to nothing.
    """
    here = Path(place(page)).parent

    def linked(match: re.Match[str]) -> str:
        target = os.path.normpath(Path(page).parent / unquote(match[2]))
        if not (ROOT / target).is_file():
            raise PackageError(f"{page} links to {match[2]}, which is no file")
        if target not in known:
            files.add(target)
        return match[1] + os.path.relpath(place(target), here)

    def boxed(match: re.Match[str]) -> str:
        lines = [line.removeprefix("> ") for line in match[2].splitlines()]
        return "\n".join([f":::{{{match[1].lower()}}}", *lines, ":::", ""])

    script = os.path.relpath("mermaid.min.js", here)
    dark = "matchMedia('(prefers-color-scheme: dark)').matches"
    begin = f"mermaid.initialize({{theme: {dark} ? 'dark' : 'default'}})"
    scripts = [f'<script src="{script}"></script>\n<script>{begin}</script>\n']

    def drawn(match: re.Match[str]) -> str:
        diagram = f'<pre class="mermaid">\n{html.escape(match[1])}</pre>\n'
        # Once for all diagrams of a page.
        return f"```{{raw}} html\n{diagram}{scripts.pop() if scripts else ''}```"

    text = _MERMAID.sub(drawn, text)
    parts = _FENCE.split(text)
    prose = [_ALERT.sub(boxed, _LINK.sub(linked, part)) for part in parts[::2]]
    parts[::2] = prose
    return "".join(parts)


def mermaid() -> Path:
    """The script that draws the diagrams, fetched once by npm.

    Raises:
        PackageError: npm is missing or failed, or it is not the file that was chosen.
    """
    version, digest = MERMAID
    file = ENVIRONMENTS / f"mermaid-{version}.min.js"
    if not file.exists():
        with tempfile.TemporaryDirectory() as name:
            if shutil.which("npm") is None:
                raise PackageError("npm is missing, which fetches mermaid: install nodejs and npm")
            archive = run(["npm", "pack", "--silent", f"mermaid@{version}"], Path(name)).split()[-1]
            with tarfile.open(Path(name, archive)) as package:
                opened = package.extractfile("package/dist/mermaid.min.js")
                content = opened.read() if opened else b""
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    if hashlib.sha256(file.read_bytes()).hexdigest() != digest:
        file.unlink()
        raise PackageError(f"mermaid {version} is not the file of tools/site.py: run it again")
    return file


def stage(folder: Path) -> dict[str, str]:
    """Write what Sphinx reads into a folder; returns the Markdown by its place on the site."""
    known, files = set(pages()), set[str]()
    found = {}
    for page in pages():
        found[place(page)] = staged(page, (ROOT / page).read_text(), known, files)
    for name, text in found.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text + _contents() if name == "index.md" else text)
    extra = folder / "extra"
    extra.mkdir(exist_ok=True)
    shutil.copyfile(mermaid(), extra / "mermaid.min.js")
    for file in files:
        # Beside the pages, as they are: a report is opened in the browser, not downloaded.
        target = extra / place(file)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / file, target)
        beside = folder / place(file)
        beside.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / file, beside)
    shutil.copyfile(ROOT / "packaging/site/conf.py", folder / "conf.py")
    return found


def _contents() -> str:
    """The trees of contents, for the end of the first page."""
    lines = []
    for caption, section in NAV.items():
        names = [place(page).removesuffix(".md") for page in section]
        lines += ["", "```{toctree}", f":caption: {caption}", ":hidden:", "", *names, "```"]
    return "\n".join(lines) + "\n"


def llms(markdown: Mapping[str, str]) -> str:
    """``llms.txt``: each page with its first sentence, as llmstxt.org has it."""
    first = _first(markdown["index.md"])
    lines = ["# kraft-bridge", "", f"> {first}"]
    for caption, section in NAV.items():
        lines += ["", f"## {caption}", ""]
        for page in section:
            text = markdown[place(page)]
            title = re.search(r"^# (.*)$", text, re.MULTILINE)
            name = title[1] if title else place(page)
            lines.append(f"- [{name.replace('`', '')}]({place(page)}): {_first(text)}")
    return "\n".join(lines) + "\n"


def _first(text: str) -> str:
    """The first sentence of a page, without marks of Markdown."""
    body = re.sub(r"<!--.*?-->|^ *```.*?^ *```$", "", text, flags=re.DOTALL | re.MULTILINE)
    paragraphs = [
        one for one in body.partition("# ")[2].partition("\n")[2].split("\n\n") if one.strip()
    ]
    plain = [one for one in paragraphs if one.strip()[0] not in "|#<:-"]
    words = " ".join(plain[0].split()) if plain else ""
    words = re.sub(r"\[([^]]+)\]\([^)]*\)", r"\1", words).replace("*", "").replace("`", "")
    return re.split(r"(?<=[.:]) (?=[A-Z])", words)[0]


class _Page(HTMLParser):
    """What an HTML page links to, and the anchors that it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for key, value in attrs:
            if key == "id" or (key == "name" and tag == "a"):
                self.anchors.add(value or "")
            elif key in {"href", "src", "srcset"} and value:
                self.links.append(value)


def broken(folder: Path) -> Iterator[str]:
    """Each link of a built site that leads to nothing within it: page, link."""
    read = {path: _Page(path.read_text()) for path in sorted(folder.rglob("*.html"))}
    for path, page in read.items():
        for link in page.links:
            where = urlsplit(link)
            if where.scheme or where.netloc:
                continue
            target = (path.parent / unquote(where.path)).resolve() if where.path else path
            if target.is_dir():
                target /= "index.html"
            anchor = unquote(where.fragment)
            if not target.is_file():
                yield f"{path.relative_to(folder)}: {link}: no such file"
            elif anchor and target in read and anchor not in read[target].anchors:
                yield f"{path.relative_to(folder)}: {link}: no such anchor"


def site(out: Path, version: str) -> str:
    """Build the site of a release below a folder; returns what it has, in words.

    Raises:
        PackageError: Sphinx warned, or a link is broken.
    """
    target = out / version
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        markdown = stage(folder)
        sphinx = environment("site") / "sphinx-build"
        built = folder / "built"
        command: list[str | Path] = [
            sphinx,
            "-W",
            "--keep-going",
            "-n",
            "-q",
            "-d",
            folder / "doctrees",
        ]
        run([*command, folder, built], SITE_VERSION=version)
        for place_, text in markdown.items():
            (built / place_).write_text(text)
        (built / "llms.txt").write_text(llms(markdown))
        if wrong := list(broken(built)):
            raise PackageError("\n".join(wrong))
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(built, target)
    versions = sorted(one.name for one in out.iterdir() if (one / "index.html").is_file())
    (out / "versions.json").write_text(json.dumps(versions) + "\n")
    refresh = f'<meta http-equiv="refresh" content="0; url={version}/index.html">'
    link = f'<a href="{version}/index.html">kraft-bridge {version}</a>'
    (out / "index.html").write_text(f"<!doctype html><title>kraft-bridge</title>{refresh}{link}\n")
    links = sum(len(_Page(path.read_text()).links) for path in target.rglob("*.html"))
    return f"{len(markdown)} pages, {links:,} links, in {target}"


def main() -> int:
    """Build it; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "out/site")
    parser.add_argument(
        "--version",
        default=tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"],
    )
    parser.add_argument("--no-blocks", action="store_true", help="run no shell block")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    try:
        built = site(options.out, options.version)
        ran = [] if options.no_blocks else blocks.here()
        print(f"site OK: {built}; {len(ran)} of {len(blocks.every())} shell blocks were run")
    except (PackageError, blocks.BlockError) as failed:
        print(f"site FAILED: {failed}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
