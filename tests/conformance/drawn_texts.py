"""Drawn texts: numbers, words, lists, patterns, logins, as somebody writes or spoils them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

from emulator.controller.tables.config_defs import topic_configs
from emulator.controller.tables.server_configs import ONLY_DYNAMIC, Type, server_configs

Texts = tuple[str, ...]

# Characters at which languages differ: blanks, digits, letters that change with their case.
ODD = (
    *("\0", "\t", "\n", "\x0b", "\f", "\r", "\x1c", "\x1f", " ", "\x7f", "\x85", "\xa0", "\u1680"),
    *("\u2003", "\u2009", "\u2028", "\u200b", "\u202f", "\u3000", "\ufeff", "\u0663", "\u0b66"),
    *(
        "\uff15",
        "\U0001d7d3",
        "\xb2",
        "\u2160",
        "\u4e94",
        "_",
        "\u017f",
        "\u0131",
        "\u0130",
        "\u212a",
    ),
)
NUMBERS = (
    *(
        "0",
        "1",
        "5",
        "-1",
        "-2",
        "+5",
        "-0",
        "05",
        "000000000000000000000000000000000000007",
        "--1",
    ),
    *("2147483647", "2147483648", "-2147483648", "-2147483649", "9223372036854775807", "1_000"),
    *("9223372036854775808", "-9223372036854775808", "-9223372036854775809", "+", "-", "", "1e3"),
    *("0x10", "1.0", "0.5", ".5", "5.", ".", "1e", "1e+5", "1E-400", "1e400", "0.5f", "0.5d", "1F"),
    *("NaN", "-NaN", "+NaN", "nan", "Infinity", "-Infinity", "infinity", "inf", "NaNf", "1_0.5"),
    *("0x1p-1", "0X1.8P1f", "0x.8p0", "0x1", "0x1p", "0x.p1", "0x1p99999999999", "-0x1p-99999999"),
    *("0x1.fffffffffffff8p1023", "0x0.0000000000001p-1022", "4.9e-324", "2.4703282292062328e-324"),
    *("1.7976931348623157e308", "1.7976931348623159e308", "9" * 30, "0." + "0" * 40 + "1", "1,5"),
)
WORDS = ("true", "TRUE", "True", "false", "FALSE", "fal\u017fe", "yes", "1", "tru", "truee")
LISTS = (
    "",
    ",",
    "a",
    "a,b",
    "a , b",
    ",a",
    "a,",
    "a,,b",
    "a,a",
    " a\t,\nb ",
    "a\u00a0,b",
    "*",
    "delete",
)
PROPERTIES = (
    *(
        "a=1\n",
        "a:1",
        "a 1",
        "a = 1 \n",
        "#x=1\n",
        "!x\n",
        "a\\=b=c\n",
        "a=b\\\n  c\n",
        "a=b\\\\\n",
    ),
    *(
        "k=\\u0041\n",
        "k=\\t\\n\\x\n",
        "\n",
        "\r\n",
        "\r",
        "  \t",
        "=",
        ":",
        "=v\n",
        "k\n",
        "\f",
    ),
    *(
        "\xa0",
        "\x85",
        "\x1f",
        "\u2028",
        "k=v\r",
        "a=#b\n",
        "\\ a=b\n",
        "a\t:\t=b\n",
        "long=1\\\r\n 2\n",
    ),
)
PATTERN = (
    *"abz019-^$.|?*+()[]{}\\&<>!:, =#\u0663\xe9",
    *(r"\d", r"\D", r"\s", r"\w", r"\h", r"\v", r"\R", r"\b", r"\B", r"\A", r"\Z", r"\z", r"\G"),
    *(r"\Q", r"\E", r"\Qa.1\E", r"\x41", r"\x{1F600}", r"\x{110000}", r"\x4", r"\u0041", r"\u00"),
    *(
        r"\ud83d\ude00",
        r"\0",
        r"\07",
        r"\0377",
        r"\0400",
        r"\08",
        r"\cA",
        r"\c",
        r"\1",
        r"\2",
        r"\10",
    ),
    *(
        r"\k<n>",
        r"\k",
        r"\p{L}",
        r"\p{Lu}",
        r"\pL",
        r"\P{Alpha}",
        r"\p{IsLatin}",
        r"\p{IsAlphabetic}",
    ),
    *(
        r"\p{InGreek}",
        r"\p{Foo}",
        r"\p{}",
        r"\p{L",
        r"\pX",
        r"\p{javaLowerCase}",
        r"\-",
        r"\.",
        r"\_",
    ),
    *(r"\e", r"\a", r"\f", r"\n", r"\g", r"\y", r"\i", r"\N", r"\X", r"\b{g}", r"\]", r"\[", r"\^"),
    *(
        "(?:",
        "(?i)",
        "(?i:",
        "(?-i)",
        "(?is-m:",
        "(?x)",
        "(?U)",
        "(?c)",
        "(?P<n>",
        "(?<n>",
        "(?<1>",
    ),
    *(
        "(?=",
        "(?!",
        "(?<=",
        "(?<!",
        "(?>",
        "(?#",
        "(?",
        "(?i",
        "{2}",
        "{2,}",
        "{2,3}",
        "{3,2}",
        "{,3}",
    ),
    *(
        "{99999999999}",
        "{1",
        "a*",
        "b+",
        "c?",
        "[a-z]",
        "[^a]",
        "[]a]",
        "[a&&b]",
        "[a&&[^b]]",
        "[&&]",
    ),
    *(
        "[z-a]",
        "[a-]",
        "[a-[b]]",
        "[-a]",
        r"[\d-z]",
        r"[a-\d]",
        "[[]",
        "[^]",
        "[a&&]",
        "[&&a]",
        "&&",
        "()",
    ),
    *("a|b", "(a)", "(a*)", "[a]{3}", "x*?", "x++", "x?+", "x**", "a{2}{3}", "^*", "$+", "(?i)*"),
)
PARTS = ("client_id", "client_source_port", " client_id ", "client_id\xa0", "nonsense", "")
JAAS = (
    *("org.apache.kafka.common.security.plain.PlainLoginModule", "a.B", "a-b_c$d", "a*b", "x"),
    *(
        "required",
        "REQUIRED",
        "Requisite",
        "optional",
        "requ\u0131red",
        "sufficient",
        "u",
        "user_x",
    ),
    *(
        "=",
        ";",
        " ",
        "\t",
        "\n",
        "\r\n",
        "\r",
        "{",
        "}",
        "'",
        '"',
        "''",
        '""',
        "'s3cret'",
        '"s3cret"',
    ),
    *(
        '"a\'b"',
        "'a\"b'",
        r'"a\tb"',
        r'"\101\061"',
        r"'\400\8\q'",
        r'"\\"',
        r'"\""',
        "\\",
        '"a\nb"',
    ),
    *(
        "123",
        "1a",
        "a1",
        "-1",
        "-a",
        "-",
        ".",
        ".5",
        "3.x",
        "pass-word",
        "p!",
        "#c\n",
        "//c\n",
        "/* c */",
    ),
    *(
        "/c\n",
        "/\n",
        "/\r",
        "/",
        "/*",
        "*/",
        "\xa0",
        "\x80",
        "\x9f",
        "\u20ac",
        "\xff",
        "\U0001f600",
        "_",
        "$",
        "${x}",
    ),
)
VERSIONS = (
    *(
        "0.8",
        "0.8.0",
        "0.8.2",
        "0.8.2.1",
        "0.9",
        "0.9.0",
        "0.9.0.1",
        "0.10.0-IV0",
        "0.10.1",
        "0.11.0",
    ),
    *(
        "0.10",
        "1.0",
        "1.1-IV0",
        "1.2",
        "1.01",
        "2.0",
        "2.0-IV1",
        "2.0-IV2",
        "2.7.1",
        "2.8-IV0",
        "2.9",
    ),
    *(
        "3.0-IV1",
        "3.3.2",
        "3.4",
        "3.5-IV2",
        "3.9",
        "3.9.2",
        "3.9-IV0",
        "3.9-IV1",
        "3.10",
        "4.0",
        "4.0.0",
    ),
    *(
        "3",
        "3.",
        "3.9.",
        "3.9.x",
        ".3",
        "03.9",
        "3.9-iv0",
        "v3.9",
        "0.5",
        "0.11",
        "0.11.0-IV2",
        "3.9 ",
    ),
)
VALUES = (
    *NUMBERS,
    *WORDS,
    *VERSIONS,
    *(
        "compact",
        "delete",
        "compact,delete",
        "compact , delete",
        "delete,",
        ",delete",
        "DELETE",
        "none",
    ),
    *(
        "uncompressed",
        "gzip",
        "zstd",
        "lz4",
        "snappy",
        "producer",
        "GZIP",
        "CreateTime",
        "createtime",
    ),
    *("LogAppendTime", "*", "*,", "*,*", "0:1", "0:1,1:2", "0:1, 1:2", "0:1 ,1:2", "0:1,", ",0:1"),
    *(
        "0:1,,1:2",
        ",",
        "0:",
        ":1",
        "a:b",
        "0:1:2",
        "0:1,0:1",
        "99999999999:1",
        "0:99999999999",
        "*:1",
    ),
    *("\u0663:1", "0:\u0663", "-1:2", "+1:2", "0:1,*", "* ,"),
)

EDGES = (
    *("-3", "-2", "-1", "0", "1", "3", "4", "13", "14", "22", "23", "9", "10", "17", "18", "1.01"),
    *("-131072", "-131073", "1048576", "1048577", "32767", "32768", "-32768", "-32769", "none"),
    *(
        "required",
        "Required",
        "a:1",
        "a:1,b:2",
        "a:1, b:-2 ",
        "a:",
        ":5",
        "a:1,,",
        "::1:5",
        "a/b:1",
    ),
)
DYNAMIC = sorted(
    name
    for name, known in server_configs("3.9").items()
    # The others are of one listener, a class, or listeners.
    if known.dynamic
    and known.type not in {Type.CLASS, Type.PASSWORD}
    and not name.startswith(("ssl.keystore", "ssl.truststore"))
    and name not in {"listeners", "advertised.listeners", "listener.security.protocol.map"}
) + sorted(ONLY_DYNAMIC)


def spoilt(rng: random.Random, text: str) -> str:
    """Often as it is; else with one or two odd characters somewhere, mostly at an end."""
    for _ in range(rng.choice((0, 0, 1, 1, 2))):
        at = rng.choice((0, len(text), rng.randint(0, len(text))))
        if rng.random() < 0.2 and text:
            text = text[:at] + text[at + 1 :]
        else:
            text = text[:at] + rng.choice(ODD) + text[at:]
    return text


def one_of(*some: Iterable[str]) -> Callable[[random.Random], Texts]:
    known = [text for texts in some for text in texts]
    return lambda rng: (spoilt(rng, rng.choice(known)),)


def made_of(parts: tuple[str, ...], most: int) -> Callable[[random.Random], Texts]:
    return lambda rng: ("".join(rng.choices(parts, k=rng.randint(1, most))),)


def a_number(rng: random.Random) -> Texts:
    digits = rng.choice(("0123456789", "01", "0123456789abcdefABCDEF.", "0123456789\u0663\uff15"))
    alphabet = digits + rng.choice(("", ".", "eE+-", ".eE+-fFdD", "xXpP.+-"))
    drawn = "".join(rng.choices(alphabet, k=rng.randint(0, 12)))
    return (spoilt(rng, rng.choice(("", "", "-", "+", "0x")) + drawn),)


def either(*some: Callable[[random.Random], Texts]) -> Callable[[random.Random], Texts]:
    return lambda rng: rng.choice(some)(rng)


def a_pattern(rng: random.Random, most: int = 6) -> str:
    return "".join(rng.choices(PATTERN, k=rng.randint(1, most)))


def topic_values(rng: random.Random) -> Texts:
    names = list(topic_configs("3.9"))
    found: list[str] = []
    for name in rng.sample(names, rng.choice((1, 1, 1, 2))):
        value = rng.choice(VALUES)
        if name.endswith("replicas") and rng.random() < 0.7:
            value = "".join(
                rng.choices(("0", "1", ":", ",", " ", "*", "0:1", "2:3,"), k=rng.randint(1, 6))
            )
        if name == "message.format.version":
            value = rng.choice(VERSIONS)
        found += (name, spoilt(rng, value))
    return tuple(found)


def dynamic_config(rng: random.Random) -> Texts:
    """A config of a broker that its metadata may set, for one listener now and then."""
    name = rng.choice(DYNAMIC)
    prefix = "listener.name.x." if rng.random() < 0.1 else ""
    value = rng.choice(VALUES if rng.random() < 0.6 else EDGES)
    return prefix + name, spoilt(rng, value)


def subscription(rng: random.Random) -> Texts:
    found: list[str] = []
    if rng.random() < 0.4:
        found += (
            "interval.ms",
            spoilt(rng, rng.choice(("100", "99", "3600000", "3600001", *NUMBERS))),
        )
    if rng.random() < 0.9:
        pairs = [
            f"{rng.choice(PARTS[:2] if rng.random() < 0.8 else PARTS)}{rng.choice('====  :')}"
            + a_pattern(rng, 3)
            for _ in range(rng.choice((1, 1, 2)))
        ]
        found += ("match", spoilt(rng, rng.choice((",", ",", " , ", ",,")).join(pairs)))
    if rng.random() < 0.3:
        found += ("metrics", spoilt(rng, rng.choice(LISTS)))
    return tuple(found)


def a_login(rng: random.Random) -> Texts:
    if rng.random() < 0.3:
        return made_of(JAAS, 12)(rng)
    return (f"a.B required {_options(rng)};{rng.choice(('', '', ' ', 'x', '// c'))}",)


def a_file(rng: random.Random) -> Texts:
    if rng.random() < 0.3:
        return made_of(JAAS, 12)(rng)
    end = rng.choice(("};", "};", "}", "}; X { y optional; };"))
    begin = rng.choice(("", "//x", "# x", "/* */", "/\nx", "//\n"))
    return (f"{begin}\nClient {{\n a.B required {_options(rng)};\n{end}",)


def _options(rng: random.Random) -> str:
    values = (*JAAS[-40:], "x")
    return " ".join(
        f"{rng.choice(('username', 'password', 'user_x', 'a-b'))}={rng.choice(values)}"
        + (rng.choice(JAAS) if rng.random() < 0.2 else "")
        for _ in range(rng.randint(0, 3))
    )


def an_edit(rng: random.Random) -> Texts:
    some = (*LISTS, "compact", "delete", "compact,delete", "\xa0delete", " delete")
    before = rng.choice(("\0", *some))
    return before, rng.choice(some), rng.choice(("APPEND", "SUBTRACT"))
