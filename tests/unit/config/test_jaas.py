"""JAAS files as Kafka's documentation writes them, and such as nobody should."""

import re

import pytest

from emulator.config import jaas

FILE = """
/* brokers */
KafkaServer {
    org.apache.kafka.common.security.plain.PlainLoginModule required
    username="admin"   password="a;b}" user_admin="a;b}";
};
// ZooKeeper
Client {
    org.apache.zookeeper.server.auth.DigestLoginModule REQUIRED
    username=kafka
    password="s\\"e\\\\cret";  // ours
};
"""


def test_sections_modules_and_options() -> None:
    found = jaas.parse(FILE)
    assert set(found) == {"KafkaServer", "Client"}
    (client,) = found["Client"]
    assert client.name == "org.apache.zookeeper.server.auth.DigestLoginModule"
    assert (client.flag, client.options) == (
        "required",
        {"username": "kafka", "password": 's"e\\cret'},
    )
    assert found["KafkaServer"][0].options["user_admin"] == "a;b}"
    assert "cret" not in repr(client)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("Client", "line 1: '{' is expected behind the name of a section"),
        ("{", "the name of a section is expected"),
        ("Client { a.B required; }", "';' is expected behind a section"),
        ("Client { a.B required;", "a section is not closed"),
        ("Client { a.B u=1; };", "behind a login module one of optional, required"),
        ("Client { a.B required u; };", "'=' is expected behind the name of an option"),
        ("Client { a.B required u=; };", "line 1: an option has no value"),
        ("Client { a.B required u=x }", "an option of a login module is expected"),
        ("Client { a.B required u=x", "do not end with ';'"),
        ("Client { ; };", "a login module is expected"),
        ('Client {\n a.B required u="1; };', "line 2: the options of a login module do not end"),
        ("Client { a.B required u=1; };", "an option has no value"),
        ("Client {\n a.B required u;\n };", "line 2: '=' is expected"),
    ],
)
def test_where_a_text_is_wrong(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        jaas.parse(text)


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ("'s3cret'", "s3cret"),
        (r'"a\tb"', "a\tb"),
        (r'"\101\061"', "A1"),
        ("'a b;c'", "a b;c"),
        ("pass-word.1", "pass-word.1"),
        (r"'\400'", "\x200"),
    ],
)
def test_a_property_has_kafka_s_grammar(value: str, read: str) -> None:
    assert jaas.one_module(f"a.B required password={value};").options == {"password": read}


@pytest.mark.parametrize(
    "text",
    [
        *("a.B required password=123;", "a.B required u=x", "a.B required u=x; c.D optional;", ""),
        *(
            "a.B required p=x!;",
            "a.B required p=-x;",
            "'' required;",
            "a.B r u=x;",
            "a.B required p;",
        ),
    ],
)
def test_a_property_that_kafka_refuses(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        jaas.one_module(text)


def test_single_quotation_marks_are_none_in_a_file() -> None:
    with pytest.raises(ValueError, match="an option has no value"):
        jaas.parse("Client { a.B required password='x'; };")


@pytest.mark.parametrize("end", ["\n", "\r"])
def test_a_comment_of_one_slash_at_the_end_of_a_line_takes_the_next_line(end: str) -> None:
    """As java.io.StreamTokenizer: one character, then all up to the end of a line."""
    module = jaas.parse(f"Client {{ a.B required x=a /{end} y=b;{end} z=c; }};")["Client"][0]
    assert module.options == {"x": "a", "z": "c"}
    module = jaas.parse(f"Client {{ a.B required x=a //{end} y=b; }};")["Client"][0]
    assert module.options == {"x": "a", "y": "b"}
