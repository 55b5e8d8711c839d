"""The pictures of a terminal in docs/pictures, drawn from the recorded output of a real run.

`make docs` draws them: one light and one dark SVG, which name no font or file of another place.
"""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

RECORD: Final = Path(__file__).resolve().parents[1] / "docs/pictures/demo.txt"
"""The standard output of a `make demo`, but for the lines with folders of that machine."""
CONDITIONS: Final = "2026-11-30, 2 cores, of which other programs used 0.1"
COLUMNS: Final = 74
_RESULTS: Final = {"OK": "green", "FAILED": "bold red", "NOT JUDGED": "yellow"}

_LIGHT: Final = TerminalTheme(
    (255, 255, 255),
    (31, 35, 40),
    [(36, 41, 47), (207, 34, 46), (17, 99, 41), (125, 78, 0)],
    [(9, 105, 218), (130, 80, 223), (27, 124, 131), (87, 96, 106)],
)
_DARK: Final = TerminalTheme(
    (13, 17, 23),
    (230, 237, 243),
    [(139, 148, 158), (255, 123, 114), (63, 185, 80), (210, 153, 34)],
    [(88, 166, 255), (188, 140, 255), (57, 197, 207), (177, 186, 196)],
)
_THEMES: Final = {"light": _LIGHT, "dark": _DARK}

_RICHS_BORDER: Final = "rgba(255,255,255,0.35)"
_BORDER: Final = "#8c959f"

# Rich's own frame, without its web font and its title.
_FRAME: Final = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">
<title>make demo: a real migration, its checks and their results</title>
<style>
.{unique_id}-matrix {{
  font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: {char_height}px;
  line-height: {line_height}px;
}}
.{unique_id}-title {{ font-family: sans-serif; font-size: 18px; }}
{styles}
</style>
<defs>{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def demo(theme: str) -> Iterator[str]:
    """One SVG of the checks in the record, each line cut at the right edge.

    Args:
        theme: ``light`` or ``dark``.
    """
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), highlight=False)
    console.print(Text("$ make demo", style="bold"))
    for line in checks(RECORD.read_text()):
        console.print(line, no_wrap=True, overflow="ellipsis", crop=False)
    drawn = console.export_svg(
        theme=_THEMES[theme], code_format=_FRAME, unique_id="demo", title=CONDITIONS
    )
    yield drawn.replace(_RICHS_BORDER, _BORDER)


def checks(record: str) -> Iterator[Text]:
    """The lines of a record that are results of checks, and its verdict, with their colours."""
    for line in record.splitlines():
        for word, style in _RESULTS.items():
            if line.startswith(f"{word:<12}"):
                yield Text.assemble((f"{word:<12}", style), line[12:])
        if line.startswith(("demo OK", "demo FAILED")):
            colour = "bold green" if line.startswith("demo OK") else "bold red"
            yield Text(line, style=colour)
