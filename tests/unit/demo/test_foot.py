"""What a terminal shows while a demonstration or a bench runs: no torn frame, no lost line."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, TextIO

import pytest
from rich.console import Console
from rich.table import Table
from rich.text import Text

from bench.demo.narrator import Narrator
from bench.demo.watch import Watch
from bench.eta import Step
from bench.foot import Foot, drawable
from bench.report.analyze import Analysis, print_summary
from bench.report.findings import Finding
from bench.runs.progress import Progress
from emulator.servers.waiting import wait_for
from tests.kit.screen import Screen, ScreenError, Terminal, terminal, unfolded

LONG = "broker 2 has not been restarted with zookeeper.metadata.migration.enable " * 3


@pytest.fixture(autouse=True)
def _a_person(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CI", "NO_COLOR", "COLUMNS", "LINES", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


@pytest.fixture(params=[80, 40, 20])
def shown(request: pytest.FixtureRequest) -> Iterator[Terminal]:
    """A terminal; ``streamed`` in a test, as pytest has its own streams in each phase."""
    with terminal(request.param) as found:
        yield found


@contextmanager
def streamed(file: TextIO) -> Iterator[None]:
    """Both streams of this process go there."""
    with redirect_stdout(file), redirect_stderr(file):
        yield


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def table(rows: int) -> Table:
    made = Table.grid(padding=(0, 2, 0, 0))
    made.add_column(no_wrap=True)
    made.add_column(overflow="fold")
    for row in range(rows):
        made.add_row(f"row {row}", LONG)
    return made


def test_what_is_printed_stays_and_nothing_of_a_frame_does(shown: Terminal) -> None:
    """The foot becomes higher and lower, higher than the screen too, and the window narrower."""
    with streamed(shown.stream):
        rows = [1]
        foot = Foot(Console(stderr=True), lambda: table(rows[0]))
        printed = []
        for number, height in enumerate((1, 6, 2, 40, 1, 3)):
            rows[0] = height
            foot.draw()
            with foot.above():
                printed.append(f"{number}: {LONG}".strip())
                say(printed[-1])
            foot.draw()
            if number == 2:
                shown.resize(max(20, shown.screen.width // 2))
        assert shown.settle()[: len(printed)] == printed
        foot.__enter__().__exit__()
        assert shown.settle() == printed


def test_a_frame_that_is_torn_is_seen(shown: Terminal) -> None:
    """Rows counted as they were drawn, and not as they stand there now."""
    with streamed(shown.stream):
        foot = Foot(Console(stderr=True), lambda: Text("x" * 200, no_wrap=True, overflow="crop"))
        foot.draw()
        width = shown.screen.width
        foot._size = lambda: (width, 24)  # type: ignore[method-assign]
        shown.resize(width // 2)
        with foot.above():
            say("a line")
        assert shown.settle() != ["a line"]


class Leader:
    """A controller whose status has more and fewer lines at each look."""

    def __init__(self) -> None:
        self.looks = 0

    def status(self) -> dict[str, Any]:
        self.looks += 1
        lag = {"records": 3, "longest_records": 9, "ms": 1}
        waiting = [{"why": "w", "subject": str(n), "text": LONG} for n in range(self.looks % 4)]
        migration = {
            "driver_state": f"STATE_{self.looks}",
            "waiting": waiting,
            "records_copied": 9,
            "lag": lag,
            "committed_offset": 7,
            "confirmed_offset": 6,
        }
        return {"migration": migration, "brokers": []}


def test_a_demonstration_leaves_its_lines_alone(shown: Terminal) -> None:
    with streamed(shown.stream):
        narrator = Narrator([Step(1), Step(1)])
        leader = Leader()
        with narrator.drawing():
            narrator.step(1, "A step")
            with Watch(leader, narrator, [0, 1]) as watch:  # type: ignore[arg-type]
                for number in range(5):
                    looks = leader.looks
                    wait_for("a look", lambda at=looks: leader.looks > at)
                    watch.doing(f"{number} {LONG}")
                    narrator.check(f"check {number}", held=True, figures=LONG)
            narrator.step(2, "Another step")
        say("demo OK")
        left = [re.sub(r"^ +[\d.]+ s  ", "", line) for line in unfolded(shown.settle()) if line]
    news = re.compile(r"migration driver: STATE_\d+|copied: 9 records|broker [01]: not registered")
    told = f"/status says: {LONG}".strip()
    assert [line for line in left if line != told and not news.fullmatch(line)] == [
        "1. A step",
        *(
            line
            for number in range(5)
            for line in (
                f"{number} {LONG}".strip(),
                f"OK          check {number}: {LONG}".strip(),
            )
        ),
        "2. Another step",
        "demo OK",
    ]


def test_the_foot_says_where_it_is_and_how_long_it_will_take() -> None:
    narrator = Narrator([Step(5), Step(600)])
    narrator.step(2, "A step")
    made = Console(width=80, record=True, file=sys.stderr)
    made.print(narrator._shown())
    assert re.search(r"^step 2 of 5, about 10 min left, 0 s gone", made.export_text())


def test_the_bench_says_which_row_is_taken(shown: Terminal) -> None:
    with streamed(shown.stream):

        class Planned:
            seconds = 60.0

            def __init__(self, number: int) -> None:
                self.run_id = f"knee-{number}"

        rows: list[Any] = [Planned(0), Planned(1)]
        with Progress(rows) as progress:
            progress.print_line("a scenario")
            progress.begin(rows[1])
            wait_for("the foot", lambda: shown.settle()[-1].startswith("row 2 of 2, abou"))
            progress.print_line(LONG)
        assert unfolded(shown.settle()) == ["a scenario", LONG.strip()]


def test_a_line_is_broken_between_words_and_a_name_stays_whole(
    shown: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    width = shown.screen.width
    monkeypatch.setenv("COLUMNS", str(width))
    with streamed(shown.stream):
        narrator = Narrator()
        narrator.print_line(LONG)
        narrator.check("c", held=False, figures=LONG, wrong=[LONG])
        narrator.end_line(LONG)
        Progress([]).print_line(LONG)
        found = shown.settle()
    assert all(len(one) <= width or len(one.split()) == 1 for one in found)
    assert " ".join(found).count("zookeeper.metadata.migration.enable") == 5 * 3


@pytest.mark.parametrize("name", ["TERM", "CI"])
def test_nothing_is_drawn_where_nothing_can_be_drawn_over(
    name: str, shown: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    with streamed(shown.stream):
        monkeypatch.setenv(name, "dumb")
        narrator = Narrator()
        with narrator.drawing():
            narrator.step(1, "A step")
            narrator.check("it held", held=True)
        assert shown.settle() == ["", "1. A step", "OK          it held"]
        if name == "TERM":
            assert shown.screen.escapes == 0


def test_a_file_gets_no_escape(tmp_path: Path) -> None:
    with (tmp_path / "out").open("w+") as file, streamed(file):
        narrator = Narrator([Step(1)])
        assert not narrator.live
        assert not drawable(Console(stderr=True))
        with narrator.drawing(), Progress([]) as progress:
            narrator.step(1, "A step")
            narrator.check("it held", held=True)
            progress.print_line("a line")
    assert "\x1b" not in (tmp_path / "out").read_text()


def test_an_interrupt_leaves_nothing_of_the_foot(shown: Terminal) -> None:
    """The terminal echoes ``^C`` behind the foot; the thread of the foot has ended."""
    with streamed(shown.stream):
        narrator = Narrator([Step(1)])

        def interrupted() -> None:
            with narrator.drawing():
                narrator.step(1, "A step")
                shown.stream.write("^C")
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            interrupted()
        assert [line for line in shown.settle() if line] == ["1. A step"]
        assert "foot" not in {one.name for one in threading.enumerate()}


def test_the_screen_wraps_as_a_terminal_does() -> None:
    screen = Screen(4)
    screen.feed("abcdef\n\x1b[1mgh\x1b[0m")
    assert screen.text == ["abcdef", "gh"]
    screen.resize(3)
    screen.feed("\r\x1b[2A\x1b[Jx")
    assert screen.text == ["x"]
    with pytest.raises(ScreenError):
        screen.feed("\x1b[?25l")


def test_findings_are_wrapped_on_a_terminal_and_nothing_of_the_wrap_is_shown(
    shown: Terminal,
) -> None:
    found = Analysis(Path("r.html"), "p", [Finding("limit", LONG)])
    with streamed(shown.stream):
        print_summary(found, Console())
    lines = shown.settle()
    assert "\\n" not in "".join(lines)
    assert " ".join(" ".join(lines).split()).startswith(f"limit: {LONG}".strip())
