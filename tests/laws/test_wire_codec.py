"""Laws of the codec: round trips, generated code = the reference, what is refused."""

import random
from typing import Any

import construct
import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given

from emulator.seam import whole
from tests.kit.laws import examples
from tests.laws.wire_values import (
    all_layouts,
    cases,
    label,
    made,
    newest_layouts,
)
from wire import codec, reference
from wire.constant import Constant
from wire.errors import DecodeError, EncodeError
from wire.plain import to_plain
from wire.schema import EMPTY, Field, Layout
from wire.walk import UNEXPLAINED, Walker

LAYOUTS = all_layouts()
any_layout = st.sampled_from(LAYOUTS)
seeds = st.integers(0, 2**32 - 1)
REFUSED = (construct.ConstructError, UnicodeDecodeError)


def outcome_of_reference(form: Layout, data: bytes) -> Any:
    try:
        return reference.decode(form, data)
    except REFUSED:
        return "refused"


def outcome_of_codec(form: Layout, data: bytes) -> Any:
    try:
        return codec.raw_decode(form.cls, form.version, data)
    except DecodeError as caught:
        refused = caught
    assert refused.message == form.name
    assert refused.version == form.version
    assert 0 <= refused.offset <= len(data)
    assert UNEXPLAINED not in refused.why
    return "refused"


def outcome_of_walk(form: Layout, data: bytes) -> str:
    try:
        Walker(form, data).walk()
    except DecodeError:
        return "refused"
    return "accepted"


def test_every_message_and_version_comes_back() -> None:
    """decode(encode(m)) == m for all of them, a few values each."""
    assert len(LAYOUTS) > 650
    for form, message in cases(LAYOUTS, range(3)):
        data = codec.raw_encode(message, form.version)
        assert codec.raw_decode(form.cls, form.version, data) == message, label(form)
        assert (
            codec.raw_encode(codec.raw_decode(form.cls, form.version, data), form.version) == data
        )


def test_generated_code_is_the_reference_on_every_message_and_version() -> None:
    for form, message in cases(LAYOUTS, range(3, 5)):
        data = codec.raw_encode(message, form.version)
        assert reference.encode(form, message) == data, label(form)
        assert reference.decode(form, data) == message, label(form)


@given(any_layout, seeds)
def test_generated_code_is_the_reference(form: Layout, seed: int) -> None:
    message = made(form, seed)
    data = reference.encode(form, message)
    assert codec.raw_encode(message, form.version) == data
    assert codec.raw_decode(form.cls, form.version, data) == message == reference.decode(form, data)


@given(any_layout, seeds)
def test_sequences_of_any_kind_encode_alike(form: Layout, seed: int) -> None:
    """A list where a tuple would be, and the other way round, change no byte."""
    message = made(form, seed)
    before = codec.raw_encode(message, form.version)
    for entry in (*form.fields, *form.tagged):
        value = getattr(message, entry.name)
        if entry.array and value is not None:
            setattr(message, entry.name, list(value) if isinstance(value, tuple) else tuple(value))
    assert codec.raw_encode(message, form.version) == before


def with_constants(value: Any) -> Any:
    """The same message, in which each array of structs is one that messages share."""
    if isinstance(value, list | tuple) and value and isinstance(value[0], msgspec.Struct):
        return Constant(map(with_constants, value))
    if isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            setattr(value, name, with_constants(getattr(value, name)))
    return value


@given(any_layout, seeds)
def test_pieces_are_the_same_bytes(form: Layout, seed: int) -> None:
    """At once or in slices, and whether the bytes of an array are known or not."""
    data = codec.raw_encode(made(form, seed), form.version)
    expected = codec.encode(codec.decode(form.cls, form.version, data), form.version)
    for first in (codec.encode_pieces, lambda *one: whole(codec.encoding(*one))):
        message = with_constants(codec.decode(form.cls, form.version, data))
        assert b"".join(first(message, form.version)) == expected
        assert b"".join(codec.encode_pieces(message, form.version)) == expected
        assert b"".join(whole(codec.encoding(message, form.version))) == expected
        assert codec.encode(message, form.version) == expected


def test_a_bound_that_is_not_reached_changes_nothing() -> None:
    for form, message in cases(LAYOUTS, range(2)):
        data = codec.raw_encode(message, form.version)
        assert codec.raw_decode(form.cls, form.version, data, 10**6) == message, label(form)


def test_truncation_at_every_byte_is_a_decode_error() -> None:
    """Of every message, cut anywhere: DecodeError, and nothing else."""
    for form, message in cases(newest_layouts(), range(1), small=True):
        data = codec.raw_encode(message, form.version)
        for cut in range(len(data)):
            assert outcome_of_codec(form, data[:cut]) == "refused", (label(form), cut)


@given(any_layout, seeds)
def test_truncation_is_refused_in_all_versions(form: Layout, seed: int) -> None:
    data = codec.raw_encode(made(form, seed, small=True), form.version)
    for cut in range(len(data)):
        assert outcome_of_codec(form, data[:cut]) == "refused"


@given(any_layout, seeds, st.binary(min_size=1, max_size=8))
def test_trailing_bytes_are_refused(form: Layout, seed: int, tail: bytes) -> None:
    data = codec.raw_encode(made(form, seed, small=True), form.version)
    assert outcome_of_codec(form, data + tail) == "refused"


@examples(400)
@given(any_layout, seeds)
def test_damaged_bytes_are_judged_as_the_reference_does(form: Layout, seed: int) -> None:
    """Generated code, reference and walk refuse the same bytes, and read the others alike."""
    rng = random.Random(seed)
    data = bytearray(codec.raw_encode(made(form, seed, small=True), form.version))
    for _ in range(rng.randint(1, 3)):
        place = rng.randrange(len(data) + 1)
        match rng.randrange(3):
            case 0:
                del data[place : place + rng.randint(1, 4)]
            case 1:
                data[place:place] = rng.choice(
                    (b"\xff" * 5, b"\0", b"\x80\x80\x80\x80\x08", b"\x7f")
                )
            case _:
                if place < len(data):
                    data[place] = rng.choice((0, 1, 2, 127, 128, 255, rng.randrange(256)))
    damaged = bytes(data)
    got, wanted = outcome_of_codec(form, damaged), outcome_of_reference(form, damaged)
    # repr, as a float may be NaN and so unequal to itself.
    assert repr(got if got == "refused" else to_plain(form, got)) == repr(
        wanted if wanted == "refused" else to_plain(form, wanted)
    )
    assert outcome_of_walk(form, damaged) == ("refused" if got == "refused" else "accepted")


def other_than_default(form: Layout, entry: Field) -> Any:
    """A value of an absent field that is not its default."""
    if entry.array:
        item = entry.group.cls() if entry.group is not None else scalar(entry)
        return [item] if entry.group is not None else (item,)
    if entry.default is EMPTY:
        changed = entry.group.cls()
        inner = next(f for f in (*entry.group.absent, *entry.group.fields) if f.group is None)
        setattr(changed, inner.name, scalar(inner))
        return changed
    return entry.group.cls() if entry.group is not None else scalar(entry)


def scalar(entry: Field) -> Any:
    if entry.kind in {"string", "bytes", "records", "uuid"}:
        return {"string": "x", "uuid": b"\1" * 16}.get(entry.kind, b"x")
    return not entry.default if entry.kind == "bool" else 7


def structs(form: Layout, message: Any) -> list[tuple[Layout, Any]]:
    """A message and the structs inside it that a version writes."""
    found = [(form, message)]
    for entry in (*form.fields, *form.tagged):
        value = getattr(message, entry.name)
        if entry.group is not None and value is not None:
            for item in value if entry.array else [value]:
                found += structs(entry.group, item)
    return found


def test_a_value_without_a_field_is_refused_unless_it_may_be_ignored() -> None:
    """Kafka's rule, on every field that some version lacks, in whatever struct it stands."""
    refused = ignored = 0
    for form, message in cases(LAYOUTS, range(1), small=True, unknown=0):
        before = codec.raw_encode(message, form.version)
        for inner, struct in structs(form, message):
            for entry in inner.absent:
                kept = getattr(struct, entry.name)
                setattr(struct, entry.name, other_than_default(inner, entry))
                if entry.ignorable:
                    ignored += 1
                    assert codec.raw_encode(message, form.version) == before
                else:
                    refused += 1
                    with pytest.raises(EncodeError, match="has no field in this version") as caught:
                        codec.raw_encode(message, form.version)
                    assert caught.value.path.endswith(entry.name)
                    with pytest.raises(construct.ConstructError):
                        reference.encode(form, message)
                setattr(struct, entry.name, kept)
    assert refused > 200
    assert ignored > 200


def test_unknown_tagged_fields_have_no_place_before_flexible_versions() -> None:
    for form, message in cases([f for f in LAYOUTS if not f.flexible], range(1), small=True):
        message.unknown_tags = ((5, b"x"),)
        with pytest.raises(EncodeError, match="unknown_tags"):
            codec.raw_encode(message, form.version)


def test_unknown_tagged_fields_survive_in_every_struct() -> None:
    """A peer of a later release may add tagged fields anywhere; they come back as they were."""
    seen = 0
    for form, message in cases([f for f in LAYOUTS if f.flexible], range(1), unknown=1.0):
        data = codec.raw_encode(message, form.version)
        again = codec.raw_decode(form.cls, form.version, data)
        for (_, before), (_, after) in zip(
            structs(form, message), structs(form, again), strict=True
        ):
            assert before.unknown_tags == after.unknown_tags
            seen += before.unknown_tags != ()
    assert seen > 1000


@given(st.sampled_from(["FetchRequest", "AlterPartitionRequest", "UpdateFeaturesRequest"]), seeds)
def test_bringing_a_message_to_one_shape_loses_nothing(name: str, seed: int) -> None:
    """What a peer sent in an older shape is written again to the byte."""
    for form in (form for form in LAYOUTS if form.name == name):
        data = codec.raw_encode(made(form, seed), form.version)
        assert codec.encode(codec.decode(form.cls, form.version, data), form.version) == data
