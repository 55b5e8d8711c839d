"""The site: each page has a place, and a link that leads to nothing is found."""

import pytest

from tests.test_tidy import PAGES, ROOT
from tools import site
from tools.package import PackageError


def test_each_page_of_the_docs_is_on_the_site_once():
    pages = site.pages()
    assert len(pages) == len(set(pages)) == len({site.place(page) for page in pages})
    names = {str(page.relative_to(ROOT)) for page in PAGES}
    fragments = {name for name in names if name.startswith("docs/changes/")}
    assert set(pages) == (names - fragments) | {"docs/changes/README.md"}


def test_links_lead_to_the_places_of_the_site():
    text = "[a](rollback.md#x) [b](../SECURITY.md) [c](examples/demo.html) [d](#e)\n"
    text += "```\n[not](a-link.md)\n```\n"
    files = set()
    found = site.staged(
        "docs/dev/life.md", text.replace("](", "](../", 3), set(site.pages()), files
    )
    assert found == (
        "[a](../rollback.md#x) [b](../security.md) [c](../examples/demo.html) [d](#e)\n"
        "```\n[not](a-link.md)\n```\n"
    )
    assert files == {"docs/examples/demo.html"}
    picture = '<img src="docs/pictures/demo-light.svg">'
    assert 'src="pictures/demo-light.svg"' in site.staged("README.md", picture, set(), files)
    with pytest.raises(PackageError, match=r"docs/life\.md links to gone\.md"):
        site.staged("docs/life.md", "[x](gone.md)", set(), files)


def test_what_only_github_draws_is_written_for_the_site():
    page = "> [!CAUTION]\n> **Never.** On a copy.\n\n```mermaid\na-->b\n```\n"
    found = site.staged("docs/dev/x.md", page, set(), set())
    assert found.startswith(":::{caution}\n**Never.** On a copy.\n:::\n")
    assert '<pre class="mermaid">\na--&gt;b\n</pre>\n<script src="../mermaid.min.js">' in found
    twice = site.staged("docs/dev/x.md", page + page, set(), set())
    assert twice.count('<pre class="mermaid">') == 2
    assert (twice.count("<script src="), twice.count("```{raw} html\n")) == (1, 2)


def test_a_link_or_an_anchor_that_is_not_there_is_found(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "index.html").write_text('<h1 id="x"></h1><a href="a/b.html#y">')
    page = '<p id="y"><a href="#y"><a href="../index.html#x"><a href="http://h/"><img src="{}">'
    (tmp_path / "a" / "b.html").write_text(page.format("../index.html"))
    assert list(site.broken(tmp_path)) == []
    (tmp_path / "a" / "b.html").write_text(page.format("p.png") + '<a href="../index.html#z">')
    assert list(site.broken(tmp_path)) == [
        "a/b.html: p.png: no such file",
        "a/b.html: ../index.html#z: no such anchor",
    ]


def test_llms_txt_has_each_page_with_a_sentence():
    markdown = {site.place(page): (ROOT / page).read_text() for page in site.pages()}
    text = site.llms(markdown)
    assert text.startswith("# kraft-bridge\n\n> Rehearse your Kafka migration")
    lines = [line for line in text.splitlines() if line.startswith("- ")]
    assert len(lines) == len(site.pages()) - 1
    assert [line for line in lines if not line.partition("): ")[2].strip()] == []
    page = "<!-- Written -->\n\n# A page\n\n```\ncode\n\nmore\n```\n\n`verb` is [so](x.md). More.\n"
    assert "](x.md)" not in site.llms(dict.fromkeys(markdown, page))
    assert "(runbook.md): verb is so.\n" in site.llms(dict.fromkeys(markdown, page))
