from collections.abc import Callable

import pytest

from emulator.metadata import PMap
from emulator.metadata.pmap import CHUNK


def test_an_older_version_stays_as_it_was() -> None:
    old = PMap({"b": 1, "c": 2})
    new = old.set("a", 0).set("b", 9).delete("c")
    assert list(old.items()) == [("b", 1), ("c", 2)]
    assert list(new.items()) == [("a", 0), ("b", 9)]


def test_iteration_goes_by_key_whatever_the_history() -> None:
    up, down, mixed = PMap(), PMap(), PMap({key: key for key in range(0, 1000, 3)})
    for key in range(1000):
        up = up.set(key, key)
        down = down.set(999 - key, 999 - key)
        mixed = mixed.set(key * 7 % 1000, key * 7 % 1000)
    for one in (up, down, mixed):
        assert list(one) == list(one.values()) == list(range(1000))
        assert list(one.items()) == [(key, key) for key in range(1000)]
    assert up == down == mixed == PMap((key, key) for key in range(1000))


def test_ascending_keys_fill_their_chunks() -> None:
    full = PMap()
    for key in range(10 * CHUNK):
        full = full.set(key, None)
    assert len(full._chunks) == 10


def test_deleting_merges_chunks_that_are_nearly_empty() -> None:
    one = PMap((key, key) for key in range(10 * CHUNK))
    for key in range(10 * CHUNK - 1):
        one = one.delete(key)
        assert key not in one
    assert len(one._chunks) == 1
    assert dict(one) == {10 * CHUNK - 1: 10 * CHUNK - 1}
    assert not one.delete(10 * CHUNK - 1)


@pytest.mark.parametrize("step", [1, -1])
def test_a_hole_in_the_middle_loses_nothing_around_it(step: int) -> None:
    one = PMap((key, key) for key in range(10 * CHUNK))
    kept = {*range(3 * CHUNK), *range(5 * CHUNK, 5 * CHUNK + 9), *range(7 * CHUNK, 10 * CHUNK)}
    for key in list(range(10 * CHUNK))[::step]:
        if key not in kept:
            one = one.delete(key)
    assert len(one._chunks) < 10
    assert {key for key in range(10 * CHUNK) if key in one} == set(one) == kept
    for key in range(10 * CHUNK):
        one = one.set(key, key)
    assert list(one.items()) == [(key, key) for key in range(10 * CHUNK)]


def test_reading() -> None:
    one = PMap({2: "b", 1: "a"})
    assert (one[1], one.get(2), one.get(3), one.get(3, "z"), len(one)) == ("a", "b", None, "z", 2)
    assert 2 in one
    assert 3 not in one
    assert ("b" in one.values(), (1, "a") in one.items()) == (True, True)
    assert repr(one) == "PMap({1: 'a', 2: 'b'})"


@pytest.mark.parametrize("read", [lambda m: m[5], lambda m: m.delete(5)])
def test_a_missing_key_is_a_key_error(read: Callable[[PMap[int, int]], object]) -> None:
    with pytest.raises(KeyError):
        read(PMap({1: 1}))


def test_equality() -> None:
    one = PMap((key, key) for key in range(1000))
    assert one == one.set(500, 500)
    assert one != one.set(500, 0)
    assert one != one.delete(500)
    assert one != one.delete(500).set(1000, 1000)
    assert one == {key: key for key in range(1000)}
    assert one != {}
    assert one != [1]
    with pytest.raises(TypeError):
        hash(one)
