"""The pages that a person wrote: how much there is, in which order they are read, known words."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from bench.rehearsal.verdict import PhaseFigures, Rehearsal
from tests.test_tidy import PAGES, ROOT
from tools import site

BYTES_MAX = 300_000
WORDS_MAX = 30_000
FOR_CONTRIBUTORS = {"ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"}
GENERATED = re.compile(r"<!-- [^>]*written by make docs -->.*?<!-- [^>]* end -->", re.DOTALL)


def by_hand(text: str) -> str:
    """A page without what `make docs` writes."""
    return "" if text.startswith("<!-- Written by `make docs`") else GENERATED.sub("", text)


def words(text: str) -> int:
    """What has a letter or a digit, with commands and outputs, without the bars of tables."""
    return sum(bool(re.search(r"[^\W_]", word)) for word in text.split())


def written() -> dict[str, str]:
    """Each page that a person wrote, by its path; what a release takes for its notes is none."""
    pages = {str(page.relative_to(ROOT)): by_hand(page.read_text()) for page in PAGES}
    notes = re.compile(r"docs/changes/.+\.(added|changed|fixed|removed)\.md")
    return {name: text for name, text in pages.items() if text and not notes.fullmatch(name)}


def too_much(pages: dict[str, str]) -> list[str]:
    """What is over a limit, in words."""
    size = sum(len(text.encode()) for text in pages.values())
    users = {
        name: words(text)
        for name, text in pages.items()
        if name not in FOR_CONTRIBUTORS and not name.startswith(("docs/dev/", "docs/changes/"))
    }
    said = []
    if size > BYTES_MAX:
        said.append(f"{size:,} bytes were written by hand; {BYTES_MAX:,} may be")
    if (count := sum(users.values())) > WORDS_MAX:
        longest = sorted(users, key=lambda name: -users[name])[:3]
        said.append(f"{count:,} words for users; {WORDS_MAX:,} may be; longest: {longest}")
    return said


def test_what_a_person_wrote_can_be_read() -> None:
    assert too_much(written()) == []


def test_a_page_too_much_is_said_and_what_is_generated_does_not_count() -> None:
    whole = "word " * (WORDS_MAX + 1)
    assert too_much({"docs/a.md": whole}) == [
        "30,001 words for users; 30,000 may be; longest: ['docs/a.md']"
    ]
    assert too_much({"docs/dev/a.md": whole}) == []
    assert "300,001 bytes" in too_much({"docs/dev/a.md": "x" * (BYTES_MAX + 1)})[0]
    assert by_hand("<!-- Written by `make docs` from x; edit that instead. -->\n" + whole) == ""
    part = "a\n<!-- rows: written by make docs -->\n| 1 |\n<!-- rows end -->\nb\n"
    assert by_hand(part).split() == ["a", "b"]
    assert words("| a | `--b` | - |\n|---|---|\n") == 2


def relative(page: str, target: str) -> str:
    return os.path.relpath(target, Path(page).parent)


@pytest.mark.parametrize("at", range(len(site.PATH)), ids=list(site.PATH))
def test_each_page_of_the_reading_path_links_back_and_forward(at: int) -> None:
    page = site.PATH[at]
    text = (ROOT / page).read_text()
    beside = [site.PATH[at - 1]] * (at > 0) + list(site.PATH[at + 1 : at + 2])
    for other in beside:
        assert f"]({relative(page, other)})" in text, other
    if at:
        last = text.rstrip().splitlines()[-1]
        assert last.startswith("Reading path: before ["), last
        assert [f"({relative(page, other)})" in last for other in beside] == [True] * len(beside)


def prose(text: str) -> str:
    """A page without code, addresses of links and headings."""
    text = re.sub(r"^ *```.*?^ *```$|`[^`\n]*`|^#[^\n]*$", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"\]\([^)]*\)", "]", text)


def unexplained(page: str, text: str, known: list[str]) -> list[str]:
    """The known words that a page uses and does not link to the glossary."""
    found = []
    for word in known:
        anchor = re.sub(r"[^\w\- ]", "", word.lower()).replace(" ", "-")
        target = f"({relative(page, 'docs/glossary.md')}#{anchor})"
        used = re.search(rf"(?<![\w.-]){re.escape(word)}s?(?![\w-]|\.md)", prose(text))
        if used and target not in text:
            found.append(word)
    return found


KNOWN = re.findall(r"^### (.*)$", (ROOT / "docs/glossary.md").read_text(), re.MULTILINE)


@pytest.mark.parametrize("page", site.PATH[1:])
def test_a_word_that_a_newcomer_does_not_know_leads_to_the_glossary(page: str) -> None:
    assert len(KNOWN) >= 10
    assert unexplained(page, (ROOT / page).read_text(), KNOWN) == []


def test_a_word_without_its_link_is_named() -> None:
    assert unexplained("docs/x.md", "# ISR\n\nIt has two ISRs.\n", ["ISR"]) == ["ISR"]
    linked = "An [ISR](glossary.md#isr) and ISRs. `chroot`\n"
    assert unexplained("docs/x.md", linked, ["ISR", "chroot"]) == []
    assert unexplained("docs/x.md", "Two ISRs.\n", ["ISR", "chroot"]) == ["ISR"]


def test_each_kind_of_reason_for_a_no_go_has_what_to_do_now() -> None:
    found = Rehearsal("tree.json", 1, 1, 1.0, blockers=["a"], refusals=["b"], refused_nodes=["c"])
    found.refused_brokers, found.lost, found.differences = ["d"], ["e"], ["f"]
    found.phases = [PhaseFigures("copy", "failed")]
    page = (ROOT / "docs/after-rehearsing.md").read_text()
    told = re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)
    assert sorted(told) == sorted({one.kind for one in found.reasons})
