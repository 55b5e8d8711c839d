"""Passwords, names, numbers, credentials in ZooKeeper: Kafka's classes read ours, we theirs."""

import json
import random
import struct
from base64 import b64decode, b64encode
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from emulator.config.passwords import (
    CIPHERS,
    KEY_FACTORIES,
    KEY_LENGTHS,
    NAMES,
    PasswordSettings,
    is_password,
)
from emulator.metadata import EMPTY
from emulator.metadata.client_quotas import EntityPart, entity
from emulator.metadata.pmap import PMap
from emulator.metadata.scram import Credential, Mechanism
from emulator.servers.jars import kafka_jars
from emulator.servers.java_tools import java
from emulator.znodes import client_entities
from emulator.znodes.passwords import Passwords

SECRET = "a secret: ü, 漢"
USER_KEYS = client_entities.USER_AND_CLIENT_KEYS
TEXTS = ("p", "", "geheim,salt:x=", "ü漢\U0001f600", "x" * 1_000, "-----BEGIN KEY-----\nAA==\n")
Ask = Callable[[list[str]], list[str]]


@pytest.fixture(scope="module")
def ask(compile_java: Callable[..., Path]) -> Ask:
    """Questions to Kafka 3.9.2's classes, one line each."""
    jars = kafka_jars("3.9.2")
    classes = compile_java([Path(__file__).with_name("ZkOracle.java")], jars)

    def asked(questions: list[str]) -> list[str]:
        text = "\n".join(questions).encode()
        printed = java([classes, *jars], "ZkOracle", stdin=text)
        answers = printed.decode().splitlines()
        assert len(answers) == len(questions)
        return answers

    return asked


def coded(text: str) -> str:
    return b64encode(text.encode()).decode() or "="


def text_of(answer: str) -> str:
    return b64decode("" if answer == "=" else answer).decode()


def test_passwords_are_kafkas_in_both_directions(ask: Ask) -> None:
    grid = [
        PasswordSettings(SECRET, None, key_factory, cipher, bits, 1_024)
        for key_factory in KEY_FACTORIES
        for cipher in CIPHERS
        for bits in KEY_LENGTHS
    ]
    asked, wanted = [], []
    for settings in grid:
        head = (
            f"{coded(SECRET)} {settings.key_factory} {settings.cipher} "
            f"{settings.key_bits} {settings.iterations}"
        )
        for text in TEXTS:
            asked.append(f"encode {head} {coded(text)}")
            asked.append(f"decode {head} {coded(Passwords(settings).encode('/a', text))}")
            wanted.append((settings, text))
    answers = ask(asked)
    assert not [answer for answer in answers if answer.startswith("!")]
    for at, (settings, text) in enumerate(wanted):
        theirs, ours = text_of(answers[2 * at]), text_of(answers[2 * at + 1])
        assert Passwords(settings).decode(theirs) == text
        assert ours == text
        old = PasswordSettings("new", SECRET)
        assert Passwords(old).decode(theirs) == text
        with pytest.raises(ValueError, match="not encoded by means of"):
            Passwords(PasswordSettings("another")).decode(theirs)


def test_the_defaults_are_kafkas(ask: Ask) -> None:
    """What a broker without a line of configuration but the secret writes and reads."""
    ours = coded(Passwords(PasswordSettings(SECRET)).encode("/config/brokers/1 k", "geheim"))
    way = "PBKDF2WithHmacSHA512 AES/CBC/PKCS5Padding 128 4096"
    read, wrong = ask([f"decode {coded(one)} {way} {ours}" for one in (SECRET, "another")])
    assert text_of(read) == "geheim"
    assert wrong.startswith("! org.apache.kafka.common.config.ConfigException")


def test_the_same_configs_are_passwords(ask: Ask) -> None:
    (names,) = ask(["password-configs"])
    assert set(text_of(names).split(",")) == set(NAMES)
    some = [
        *NAMES,
        *(f"listener.name.internal.{name}" for name in NAMES),
        "listener.name.a.scram-sha-256.sasl.jaas.config",
        "xssl.key.password",
        "ssl.keystore.location",
        "ssl.key.password.x",
        "SSL.KEY.PASSWORD",
        "message.max.bytes",
    ]
    answers = ask([f"password-config {coded(name)}" for name in some])
    assert answers == [str(is_password(name)).lower() for name in some]


def test_names_are_kafkas(ask: Ask) -> None:
    rng = random.Random(4)
    letters = "abz019 .-_*~+%/\\:=,@üß漢\U0001f600<>\"'\n"
    names = ["".join(rng.choices(letters, k=rng.randint(1, 12))) for _ in range(500)]
    names = [name for name in names if name not in {".", ".."}]
    ours = [client_entities.znode_name(EntityPart("user", False, name)) for name in names]
    assert [text_of(one) for one in ask([f"sanitize {coded(name)}" for name in names])] == ours
    dots = [client_entities.znode_name(EntityPart("user", False, name)) for name in (".", "..")]
    read = ask([f"desanitize {coded(name)}" for name in [*ours, *dots]])
    assert [text_of(one) for one in read] == [*names, ".", ".."]


def test_numbers_are_kafkas(ask: Ask) -> None:
    """Java 17 writes one digit too many now and then: then the number is what counts."""
    rng = random.Random(5)
    numbers = [0.0, 1.0, 0.1, 1e-3, 9.99e-4, 1e7, 9999999.999, 1e21, 1e22, 1.5e300, 2.0**62]
    numbers += [rng.uniform(0, 10 ** rng.randint(-8, 20)) for _ in range(500)]
    numbers += [float(rng.randint(0, 10**12)) for _ in range(100)]
    bits = [struct.unpack(">q", struct.pack(">d", number))[0] for number in numbers]
    texts = [client_entities.java_double(number) for number in numbers]
    theirs = [text_of(one) for one in ask([f"double {one}" for one in bits])]
    assert [client_entities.parse_quota(text) for text in theirs] == numbers
    assert [int(one) for one in ask([f"number {coded(text)}" for text in texts])] == bits
    pairs = list(zip(texts, theirs, strict=True))
    assert all(len(one) <= len(other) for one, other in pairs)
    assert all(("E" in one) == ("E" in other) for one, other in pairs)
    assert sum(one == other for one, other in pairs) > 0.9 * len(texts)


def test_credentials_are_kafkas(ask: Ask) -> None:
    rng = random.Random(6)
    some = [
        Credential(rng.randbytes(n), rng.randbytes(32), rng.randbytes(64), 4_096 + n)
        for n in range(1, 40)
    ]
    texts = [client_entities.render_scram(one) for one in some]
    answers = [text_of(one) for one in ask([f"scram {coded(text)}" for text in texts])]
    assert answers == texts
    assert [client_entities.parse_scram(text) for text in answers] == some
    odd = ["", "salt=YQ==", "salt=!,stored_key=YQ==,server_key=YQ==,iterations=4096"]
    assert all(one.startswith("!") for one in ask([f"scram {coded(text)}" for text in odd]))
    for text in odd:
        with pytest.raises(ValueError, match=r"credential|base64"):
            client_entities.parse_scram(text)


def test_addresses_are_read_by_a_broker_in_zookeeper_mode(ask: Ask) -> None:
    """Kafka's controller writes ``%3A%3A1``: a broker that finds it does not start."""
    addresses = ["10.0.0.1", "::1", "[::1]", "2001:db8:0:0:0:0:2:1", "::ffff:10.0.0.1", None]
    names = [client_entities.znode_name(EntityPart.of("ip", one)) for one in addresses]
    assert set(ask([f"ip {coded(name)}" for name in names])) == {"read"}
    (kafkas,) = ask([f"ip {coded('%3A%3A1')}"])
    assert "Unable to resolve address" in kafkas


def _limits(rng: random.Random, keys: dict[str, client_entities.NumberType]) -> dict[str, float]:
    """Limits that the API takes."""
    drawn: dict[client_entities.NumberType, Callable[[], float]] = {
        client_entities.NumberType.INT: lambda: float(rng.choice((1, 7, 2**31 - 1))),
        client_entities.NumberType.LONG: lambda: float(rng.choice((1, 10**7, 2**53, 2**63))),
        client_entities.NumberType.DOUBLE: lambda: rng.choice(
            (1.0, 1e-9, 55.5, 1e300, 12_345_678.9)
        ),
    }
    return {key: drawn[kind]() for key, kind in keys.items() if rng.random() < 0.7}


def test_configs_of_clients_are_read_by_a_broker_in_zookeeper_mode(ask: Ask) -> None:
    """What it would find after a rollback; and we read what it writes."""
    rng = random.Random(7)
    credential = Credential(b"salt", b"s" * 32, b"k" * 32, 4_096)
    asked, wanted = [], []
    for _ in range(200):
        types = rng.choice(("user", "client-id", "ip", "user client-id")).split()
        key = entity((one, rng.choice((None, "a", "<default>", "CN=a,O=b/c *"))) for one in types)
        limits = _limits(rng, client_entities.IP_KEYS if types == ["ip"] else USER_KEYS)
        image = replace(EMPTY, client_quotas=PMap({key: PMap(limits)} if limits else {}))
        config = {name: struct.unpack(">q", struct.pack(">d", n))[0] for name, n in limits.items()}
        shown: dict[str, str] = {name: str(bits) for name, bits in config.items()}
        if types == ["user"] and not key[0].is_default:
            scram = (key[0].name, int(Mechanism.SCRAM_SHA_512))
            image = replace(image, scram_credentials=PMap({scram: credential}))
            shown["SCRAM-SHA-512"] = coded(client_entities.render_scram(credential))
        path, data = client_entities.entity_path(key), client_entities.data_of(image, key)
        if path is not None and data is not None:
            kind = path.split("/")[2]
            asked.append(f"config {kind} {b64encode(data).decode()}")
            wanted.append((path, data, sorted(shown.items())))
    assert len(asked) > 100
    read = [answer.split(" ") for answer in ask(asked)]
    found = [list(zip(map(text_of, one[::2]), one[1::2], strict=True)) for one in read]
    assert found == [shown for _path, _data, shown in wanted]

    texts = [json.loads(data)["config"] for _path, data, _shown in wanted]
    pairs = [[coded(word) for pair in one.items() for word in pair] for one in texts]
    written = ask([" ".join(["config-data", *words]) for words in pairs])
    for (path, data, _shown), theirs in zip(wanted, written, strict=True):
        assert client_entities.parse(path, b64decode(theirs)) == client_entities.parse(path, data)
