"""Passwords in configs of brokers: plain in the log, encoded in ZooKeeper, compared decoded."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from emulator.config.passwords import PasswordSettings, is_password
from emulator.metadata.configs import BROKER
from emulator.metadata.image import EMPTY, Image
from emulator.metadata.metadata_version import LATEST
from emulator.migration.plan import changes, compare
from emulator.migration.states import State
from emulator.migration.taking_over.preconditions import Why
from emulator.migration.tree_diff import differences
from emulator.simulation.models.zookeeper_tree import ServerTree
from emulator.znodes.entities import entities
from emulator.znodes.entity import Entities, RefusalKind
from emulator.znodes.passwords import Passwords
from tests.laws.zk_trees import EPOCH, known, ops_of, read, replayed, tree_of, write
from tests.unit.migration.stories import restart, waiting, waiting_world
from wire import records as r

PATH = "/config/brokers/1"
KEY = "listener.name.x.ssl.keystore.password"
SECRET = PasswordSettings("s", iterations=1_024)
WITH, WITHOUT = entities(Passwords(SECRET)), entities(Passwords(PasswordSettings()))


def encoded(password: str, settings: PasswordSettings = SECRET, place: str = "elsewhere") -> str:
    return Passwords(settings).encode(place, password)


def config(**values: str) -> bytes:
    return json.dumps({"version": 1, "config": values}).encode()


def secured(text: str, **more: str) -> bytes:
    return config(**{KEY: text}, **more)


def set_to(value: str | None, key: str = KEY) -> object:
    return r.ConfigRecord(resource_type=BROKER, resource_name="1", name=key, value=value)


def refused(tree: ServerTree, classes: Entities) -> list[tuple[RefusalKind, str, str]]:
    found = (one for entity in classes for one in entity.refusals(read(tree), LATEST))
    return [(one.kind, one.path, one.why) for one in found if one is not None]


def reconciled(tree: ServerTree, image: Image, classes: Entities) -> int:
    ops = ops_of(compare(read(tree), image, controller_epoch=EPOCH, entities=classes))
    write(tree, ops)
    return len(ops)


def copied(tree: ServerTree, classes: Entities) -> Image:
    records = (
        one
        for entity in classes
        for entity_records in entity.records(read(tree), EMPTY)
        for one in entity_records
    )
    return replayed(list(records))[0]


@pytest.mark.parametrize(
    "settings",
    [
        SECRET,
        PasswordSettings("s", iterations=2_000, cipher="AES/GCM/NoPadding", key_bits=256),
        PasswordSettings("s", iterations=1_024, key_factory="PBKDF2WithHmacSHA1", key_bits=192),
    ],
)
def test_a_password_is_decoded_into_the_log_and_not_written_back(
    settings: PasswordSettings,
) -> None:
    """Whatever a broker encoded it with: what it is encoded as never counts."""
    tree = tree_of({PATH: secured(encoded("geheim", settings), a="b")})
    assert refused(tree, WITH) == []
    image = copied(tree, WITH)
    assert image.config(BROKER, "1") == {KEY: "geheim", "a": "b"}
    assert reconciled(tree, image, WITH) == 0


def test_without_the_secret_a_config_of_passwords_alone_is_said_not_to_be_judged() -> None:
    """``zk diff`` and ``rollback`` look without it."""
    for more, kinds in (({}, ["unjudged"]), ({"a": "b"}, [])):
        tree = tree_of({PATH: secured(encoded("geheim"), **more)})
        image = copied(tree, WITH)
        assert [one.kind for one in differences(read(tree), image, None)] == kinds
    (one,) = differences(read(tree), EMPTY, None)
    assert one.kind == "extra"


def test_a_changed_password_is_encoded_and_told() -> None:
    tree = tree_of({PATH: secured(encoded("old"))})
    image = copied(tree, WITH)
    after, touched = replayed([set_to("new")], image)
    ops = ops_of(
        changes(image, after, touched, controller_epoch=EPOCH, known=known(tree), entities=WITH)
    )
    write(tree, ops)
    (text,) = json.loads(tree.nodes[PATH].data or b"")["config"].values()
    assert "encryptedPassword:" in text
    assert "new" not in text
    assert Passwords(SECRET).decode(text) == "new"
    assert [op.path for op in ops] == [PATH, "/config/changes/config_change_"]
    assert reconciled(tree, after, WITH) == 0


def test_the_same_plan_twice_is_the_same() -> None:
    """Kafka draws salt and vector anew for each write."""
    after, touched = replayed([set_to("p"), set_to("p", "ssl.key.password")])
    plans = [
        ops_of(
            changes(
                EMPTY,
                after,
                touched,
                controller_epoch=EPOCH,
                known=known(tree_of({})),
                entities=entities(Passwords(SECRET)),
            )
        )
        for _ in range(2)
    ]
    assert plans[0] == plans[1]
    values = json.loads(plans[0][0].data or b"")["config"].values()  # type: ignore[union-attr]
    assert len(set(values)) == 2, "equal passwords in two places do not look equal"


REFUSED = [
    (encoded("geheim"), WITHOUT, "is a password, and password.encoder.secret is not configured"),
    ("geheim", WITHOUT, "is a password, and password.encoder.secret is not configured"),
    ("geheim", WITH, "is a password that is not encoded"),
    (
        encoded("geheim", PasswordSettings("another", iterations=1_024)),
        WITH,
        "is not encoded by means of password.encoder.secret",
    ),
    ("encryptedPassword:AAAA,salt:BBBB", WITH, "is encoded without cipherAlgorithm"),
    (
        encoded("x").replace("AES/CBC/PKCS5Padding", "DES/CBC/PKCS5Padding"),
        WITH,
        "cipherAlgorithm DES",
    ),
    (encoded("x").replace("HmacSHA512", "HmacMD5"), WITH, "keyFactoryAlgorithm PBKDF2WithHmacMD5"),
    (encoded("x").replace("1024", "many"), WITH, "a number or base64 in it is malformed"),
    (encoded("x").replace("1024", "999999999"), WITH, "iterations 999999999"),
    (encoded("x").replace("salt:", "salt:!"), WITH, "a number or base64 in it is malformed"),
    (encoded("x") + ",authenticationTagLength:x", WITH, "a number or base64 in it is malformed"),
]


@pytest.mark.parametrize(("text", "classes", "why"), REFUSED)
def test_what_cannot_be_decoded_is_refused_by_znode_and_key(
    text: str, classes: Entities, why: str
) -> None:
    """Kafka without a secret copies the encoded text as if it were the password."""
    ((kind, path, said),) = refused(tree_of({PATH: secured(text)}), classes)
    assert (kind, path) == (RefusalKind.ENCODED, PATH)
    assert said.startswith(KEY)
    assert why in said
    assert "geheim" not in said


def test_the_old_secret_is_tried_too() -> None:
    """And what it fits is left as it is: a broker encodes anew when it starts (KIP-226)."""
    both = entities(Passwords(PasswordSettings("new", "s", iterations=1_024)))
    tree = tree_of({PATH: secured(encoded("geheim"))})
    assert refused(tree, both) == []
    image = copied(tree, both)
    assert image.config(BROKER, "1")[KEY] == "geheim"
    assert reconciled(tree, image, both) == 0
    ((_, _, why),) = refused(
        tree, entities(Passwords(PasswordSettings("new", "other", iterations=1_024)))
    )
    assert why.endswith("password.encoder.secret nor of password.encoder.old.secret")


def test_a_password_nobody_can_decode_is_written_anew_by_a_reconcile() -> None:
    tree = tree_of({PATH: secured("garbage")})
    image, _ = replayed([set_to("p")])
    assert reconciled(tree, image, WITH) == 2
    assert reconciled(tree, image, WITH) == 0


def test_no_password_is_lost_when_the_secret_is_gone() -> None:
    """Restarted without the secret we do not claim: a write of another key would drop it."""
    world = waiting_world(passwords=SECRET)
    world.put(PATH, secured(encoded("geheim")))
    world.start()
    for broker in (1, 2):
        world.register(broker)
    world.reach(State.DUAL_WRITE, 10_000)
    assert world.journal.stable.config(BROKER, "1")[KEY] == "geheim"
    before = world.data(PATH)
    world.settings = replace(world.settings, passwords=PasswordSettings())
    world = restart(world)
    world.advance(10_000)
    assert waiting(world) == {(Why.ENCODED, PATH)}
    assert world.data(PATH) == before
    world.settings = replace(world.settings, passwords=SECRET)
    world = restart(world)
    world.reach(State.DUAL_WRITE, 10_000)
    world.append(set_to("v", "a"))
    world.advance(1_000)
    values = json.loads(world.data(PATH) or b"")["config"]
    assert Passwords(SECRET).decode(values[KEY]) == "geheim"
    assert values["a"] == "v"


def test_without_the_secret_an_encoded_password_stops_the_start() -> None:
    world = waiting_world()
    world.put(PATH, secured(encoded("geheim")))
    world.start(1, 2)
    world.reach(State.WAIT_FOR_BROKERS, 10_000)
    assert waiting(world) == {(Why.ENCODED, PATH)}


@pytest.mark.parametrize(
    ("key", "password"),
    [
        ("ssl.keystore.password", True),
        ("listener.name.x.scram-sha-256.sasl.jaas.config", True),
        ("ssl.keystore.location", False),
        ("sasl.jaas.config.x", False),
    ],
)
def test_which_configs_are_passwords(key: str, *, password: bool) -> None:
    assert is_password(key) is password


def parts_of(text: str) -> dict[str, str]:
    pairs = (part.rpartition(":") for part in text.split(","))
    return {name: value for name, _, value in pairs}


CBC_PARTS = parts_of(encoded("geheim"))
MALFORMED = "a number or base64 in it is malformed"
UNSUPPORTED = "not encoded by|not supported"


@pytest.mark.parametrize("name", CBC_PARTS)
def test_of_what_a_password_was_encoded_with_nothing_may_be_missing(name: str) -> None:
    rest = {key: value for key, value in CBC_PARTS.items() if key != name}
    with pytest.raises(ValueError, match=f"is encoded without {name}$"):
        Passwords(SECRET).decode(",".join(f"{key}:{value}" for key, value in rest.items()))


@pytest.mark.parametrize(
    ("names", "change", "why"),
    [
        # Python passes over characters that are not of base64 unless it is told otherwise.
        (("salt", "initializationVector", "encryptedPassword"), "!{}", MALFORMED),
        (("salt", "initializationVector", "encryptedPassword"), "{}=", MALFORMED),
        (("keyLength", "iterations", "passwordLength"), "{}x", MALFORMED),
        (("keyLength", "iterations", "passwordLength"), "0_{}", MALFORMED),
        (("keyLength", "iterations", "passwordLength"), "{}\u00a0", MALFORMED),
        (
            ("keyLength", "iterations", "cipherAlgorithm", "keyFactoryAlgorithm"),
            "{}9",
            "not encoded by|supported",
        ),
    ],
)
def test_whatever_is_damaged_in_an_encoded_password_is_said(
    names: tuple[str, ...], change: str, why: str
) -> None:
    for name in names:
        damaged = CBC_PARTS | {name: change.format(CBC_PARTS[name])}
        with pytest.raises(ValueError, match=why):
            Passwords(SECRET).decode(",".join(f"{key}:{value}" for key, value in damaged.items()))


@pytest.mark.parametrize("spaced", [", ", " ,", ","])
def test_blanks_around_the_parts_do_not_matter(spaced: str) -> None:
    text = spaced.join(f"{name} : {value}" for name, value in CBC_PARTS.items())
    assert Passwords(SECRET).decode(text) == "geheim"
