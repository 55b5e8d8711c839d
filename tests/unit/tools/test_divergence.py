"""Each difference from Kafka has a severity, and as many cells as its table has columns."""

from tools import divergence


def test_each_row_has_a_severity_and_all_cells():
    tables = [one for one in divergence.sections() if "rows" in one]
    rows = [(one, name, row) for one in tables for name, row in one["rows"].items()]
    assert len(rows) > 150
    wrong = [name for _, name, row in rows if row[0] not in divergence.SEVERITIES]
    # "subject" is the name of the row, and the severity is a column of its own.
    short = [name for one, name, row in rows if len(row) != len(one["columns"])]
    assert not wrong
    assert not short


def test_the_page_has_each_row_once():
    page = "".join(divergence.page())
    rows = [name for one in divergence.sections() for name in one.get("rows", ())]
    assert sum(line.startswith("| ") for line in page.splitlines()) == (
        len(rows) + len([one for one in divergence.sections() if "rows" in one]) + 4
    )
    assert "| **high** |" in page
