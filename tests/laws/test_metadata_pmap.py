from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.metadata import PMap, pmap

step = st.tuples(st.booleans(), st.integers(0, 40), st.integers(0, 2))
steps = st.lists(step, max_size=200).map(lambda some: [(True, key, 0) for key in range(41)] + some)


@settings(deadline=None)
@given(steps)
def test_it_is_a_sorted_dict_whose_older_versions_stay(
    changes: list[tuple[bool, int, int]],
) -> None:
    with mock.patch.object(pmap, "CHUNK", 4):
        versions = [(PMap[int, int](), dict[int, int]())]
        for keep, key, value in changes:
            one, model = versions[-1]
            if keep or key not in model:
                versions.append((one.set(key, value), {**model, key: value}))
            else:
                versions.append((one.delete(key), {k: v for k, v in model.items() if k != key}))
        for one, model in versions:
            assert list(one.items()) == sorted(model.items())
            assert list(one.values()) == [model[key] for key in one]
            assert len(one) == len(model)
            assert [one.get(key) for key in range(41)] == [model.get(key) for key in range(41)]
            assert [one.floor(key) for key in range(-1, 42)] == [
                max((low for low in model if low <= key), default=None) for key in range(-1, 42)
            ]
            assert one == PMap(model)
            assert (one == versions[-1][0]) is (model == versions[-1][1])


@settings(deadline=None)
@given(st.lists(st.dictionaries(st.integers(0, 60), st.integers(0, 2), max_size=30), max_size=6))
def test_many_entries_at_once_are_as_one_after_the_other(parts: list[dict[int, int]]) -> None:
    with mock.patch.object(pmap, "CHUNK", 4):
        versions = [(PMap[int, int](), dict[int, int]())]
        for part in parts:
            one, model = versions[-1]
            versions.append((one.update(part), {**model, **part}))
        for one, model in versions:
            assert list(one.items()) == sorted(model.items())
            assert len(one) == len(model)
            assert one == PMap(model)
            for key in range(61):
                assert one.get(key) == model.get(key)
                assert (key in one) is (key in model)
            if model:
                assert one.delete(max(model)) == {k: v for k, v in model.items() if k < max(model)}


@settings(deadline=None)
@given(st.sets(st.integers(0, 60)), st.lists(st.sets(st.integers(0, 60)), max_size=6))
def test_many_keys_less_at_once_are_as_one_after_the_other(
    keys: set[int], parts: list[set[int]]
) -> None:
    with mock.patch.object(pmap, "CHUNK", 4):
        one, model = PMap({key: -key for key in keys}), {key: -key for key in keys}
        for part in parts:
            gone = part & model.keys()
            before = dict(one.items())
            after = one.without(gone)
            assert dict(one.items()) == before
            one, model = after, {k: v for k, v in model.items() if k not in gone}
            assert list(one.items()) == sorted(model.items())
            assert len(one) == len(model)
            assert one == PMap(model)
            assert [one.get(key) for key in range(61)] == [model.get(key) for key in range(61)]
            assert [one.floor(key) for key in range(61)] == [
                max((low for low in model if low <= key), default=None) for key in range(61)
            ]
            grown = one.set(30, 1).update({10: 1, 50: 1})
            assert list(grown.items()) == sorted({**model, 30: 1, 10: 1, 50: 1}.items())


@pytest.mark.parametrize("keys", [[1], [0, 1], [0, 0]])
def test_a_key_that_is_not_there_cannot_be_taken_out(keys: list[int]) -> None:
    with pytest.raises(KeyError):
        PMap({0: 0, 2: 2}).without(keys)
