"""How Java reads texts; ``tests/conformance`` asks Java itself about thousands more."""

import pytest

from emulator.config import java_pattern, java_text, zookeeper_mode
from emulator.controller.tables import config_changes


@pytest.mark.parametrize("text", ["1\xa0", "1_0", " 1", "", "+", "\U0001d7d3", "\xb2", "9" * 5_000])
def test_what_is_no_whole_number(text: str) -> None:
    with pytest.raises(ValueError, match="not a whole number"):
        java_text.whole(text)


def test_zeros_in_front_have_no_end() -> None:
    assert java_text.whole("-" + "0" * 30_000 + "7") == -7


@pytest.mark.parametrize(
    "text", ["1_0", "1e", "0x1", "inf", "nan", "NaNf", "1\xa0", ".", "\u0663", "0x.p1", "1,5"]
)
def test_what_is_no_double(text: str) -> None:
    with pytest.raises(ValueError, match="not a number"):
        java_text.double(text)


def test_exponents_beyond_any_number() -> None:
    assert java_text.double("-0x1p99999999999999999999") == -float("inf")
    assert java_text.double("0x1p-99999999999999999999") == 0
    assert java_text.double("0x0p99999999999999999999") == 0
    assert java_text.double("1e99999999999999999999") == float("inf")


@pytest.mark.parametrize(
    "pattern",
    [
        *("a{2}", "[a&&[^b]]", "[]a]", "{2}", "(?i)a", "(?<n>a)\\k<n>", "(a)\\1", "\\Qa(\\E", "a|"),
        *("\\p{Lu}", "\\pL", "(?<=ab?)c", "[a-z&&[def]]", "\\x{1F600}", "()", "a?{2}", "^$", "a*?"),
    ],
)
def test_patterns_that_are_taken(pattern: str) -> None:
    java_pattern.check(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        *(
            "(?P<x>a)",
            "[[]",
            "a{",
            "a**",
            "*",
            "(",
            ")",
            "[z-a]",
            "\\",
            "\\g",
            "\\p{Foo}",
            "[a",
            "a{2",
        ),
        *(
            "\\1",
            "(?<=a*)b",
            "(?x) a",
            "\\N{DIGIT ONE}",
            "(?<n>a)(?<n>b)",
            "\\x4",
            "(" * 60,
            "a" * 1_001,
        ),
    ],
)
def test_patterns_that_are_not(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        java_pattern.check(pattern)


def test_nothing_is_compiled_by_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """What cost 9 s: thousands of classes without regard to case."""

    def compiled(*_: object) -> None:
        raise AssertionError("a pattern of a client is compiled")

    pattern = "(?i)" + "[\u0100-\uffff]" * 190
    with monkeypatch.context() as patched:
        patched.setattr("re.compile", compiled)
        patched.setattr("re._compile", compiled)
        found = config_changes.error("s", {"match": ",".join([f"client_id={pattern}"] * 30)})
    assert found is None


def test_versions() -> None:
    for text in ("4.0", "0.5", "1.01", "3.10", "3.9.", "0.8", "3.9 "):
        with pytest.raises(ValueError, match="not a version"):
            zookeeper_mode.known(text)
    with pytest.raises(ValueError, match="not a version"):
        zookeeper_mode.known("3.5", "3.4")
