"""Reading JUnit's event stream, also one that was cut."""

from __future__ import annotations

from bench.suites.reports import FAILED, LEFT_OUT, PASSED, read

HEAD = """<?xml version="1.0" ?>
<e:events xmlns="https://schemas.opentest4j.org/reporting/core/0.1.0"
  xmlns:e="https://schemas.opentest4j.org/reporting/events/0.1.0"
  xmlns:java="https://schemas.opentest4j.org/reporting/java/0.1.0"
  xmlns:junit="https://schemas.junit.org/open-test-reporting">
"""
END = "</e:events>"


def started(number, name, kind="TEST"):
    return (
        f'<e:started id="{number}" name="{name}" time="2026-01-01T00:00:00Z"><metadata>'
        f"<junit:uniqueId>[method:{name}]</junit:uniqueId><junit:type>{kind}</junit:type>"
        "</metadata></e:started>\n"
    )


def finished(number, status, inside=""):
    return (
        f'<e:finished id="{number}" time="2026-01-01T00:00:02.500Z">'
        f'<result status="{status}">{inside}</result></e:finished>\n'
    )


def report_of(tmp_path, text):
    path = tmp_path / "events.xml"
    path.write_text(text)
    return read(path)


def test_what_ended_how(tmp_path):
    thrown = "<java:throwable>a.B: no\n\tat c</java:throwable>"
    report = report_of(
        tmp_path,
        HEAD
        + started(1, "C", "CONTAINER")
        + started(2, "one")
        + finished(2, "SUCCESSFUL")
        + started(3, "two")
        + finished(3, "FAILED", thrown)
        + started(4, "three")
        + finished(4, "SKIPPED", "<reason>left out: combined mode</reason>")
        + finished(1, "SUCCESSFUL")
        + END,
    )
    assert [(one.id, one.outcome) for one in report.ended] == [
        ("[method:one]", PASSED),
        ("[method:two]", FAILED),
        ("[method:three]", LEFT_OUT),
    ]
    assert report.ended[1].text == "a.B: no\n\tat c"
    assert report.ended[1].seconds == 2.5
    assert (report.whole, report.under_way) == (True, [])


def test_a_container_that_fails_is_a_failure(tmp_path):
    text = HEAD + started(1, "C", "CONTAINER") + finished(1, "FAILED") + END
    assert [one.outcome for one in report_of(tmp_path, text).ended] == [FAILED]


def test_of_a_stream_that_was_cut_what_ended_is_kept(tmp_path):
    text = HEAD + started(1, "one") + finished(1, "SUCCESSFUL") + started(2, "two") + "<e:fini"
    report = report_of(tmp_path, text)
    assert [one.name for one in report.ended] == ["one"]
    assert [one.name for one in report.under_way] == ["two"]
    assert not report.whole
