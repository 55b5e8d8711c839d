"""Tokens by HMAC: the answer of a scan, without one."""

from __future__ import annotations

from random import Random

import msgspec
import pytest

from emulator.controller.tables import token_index
from emulator.controller.tables.token_index import PER_STEP, TokenIndex, hmac_of
from emulator.metadata.delegation_tokens import DelegationToken, DelegationTokens
from emulator.metadata.pmap import PMap

SECRET = "s"


def token(number: int, expires: int = 0) -> DelegationToken:
    return DelegationToken(f"token-{number}", "User:a", "User:a", (), 0, 9, expires)


def tokens(*numbers: int) -> DelegationTokens:
    return PMap({f"token-{one}": token(one) for one in numbers})


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Ids whose HMAC was computed."""
    found: list[str] = []

    def counted(secret: str, token_id: str) -> bytes:
        found.append(token_id)
        return hmac_of(secret, token_id)

    monkeypatch.setattr(token_index, "hmac_of", counted)
    return found


@pytest.mark.parametrize("seed", range(20))
def test_it_finds_what_a_scan_finds_in_any_image(seed: int) -> None:
    rng, index = Random(seed), TokenIndex(SECRET)
    images: list[DelegationTokens] = [PMap()]
    for _ in range(150):
        image = rng.choice(images[-4:])
        for _ in range(rng.choice([1, 1, 40])):
            number = rng.randrange(400)
            if rng.random() < 0.4 and f"token-{number}" in image:
                image = image.delete(f"token-{number}")
            else:
                image = image.set(f"token-{number}", token(number, rng.randrange(9)))
        images.append(image)
        asked = rng.choice(images)
        if rng.random() < 0.3:
            index.go_on(asked)
        else:
            sought = f"token-{rng.randrange(400)}"
            found = index.find(asked, hmac_of(SECRET, sought))
            assert found == asked.get(sought)
    last = images[-1]
    index.find(last, b"")
    assert index._hmacs.keys() == last.keys()
    assert sorted(index._ids.values()) == sorted(last)


def test_an_hmac_that_nobody_has_costs_none(computed: list[str]) -> None:
    index, image = TokenIndex(SECRET), tokens(*range(3_000))
    while index.go_on(image):
        pass
    assert sorted(computed) == sorted(image), "each once"
    computed.clear()
    for given in (b"", b"x" * 64, b"x" * 10_000, hmac_of("other", "token-1")):
        assert index.find(image, given) is None
    assert computed == []
    assert index.find(image, hmac_of(SECRET, "token-7")) == token(7)
    assert computed == ["token-7"], "to compare in constant time"


def test_a_change_costs_what_has_changed(computed: list[str]) -> None:
    index, image = TokenIndex(SECRET), tokens(*range(3_000))
    while index.go_on(image):
        pass
    computed.clear()
    renewed = image.set("token-7", msgspec.structs.replace(token(7), expiration_timestamp=8))
    assert index.find(renewed, hmac_of(SECRET, "token-7")) == renewed["token-7"]
    more = renewed.set("token-x", token(0)).delete("token-9")
    assert index.find(more, hmac_of(SECRET, "token-9")) is None
    assert set(computed) <= {"token-7", "token-x", "token-9"}


def test_a_step_computes_some(computed: list[str]) -> None:
    index, image = TokenIndex(SECRET), tokens(*range(2 * PER_STEP + 1))
    assert index.go_on(image)
    assert len(computed) == PER_STEP
    assert index.go_on(image)
    assert not index.go_on(image)
    assert index.find(image, hmac_of(SECRET, "token-0")) == token(0)


def test_without_a_secret_there_are_none(computed: list[str]) -> None:
    index = TokenIndex(None)
    assert not index.go_on(tokens(1))
    assert index.find(tokens(1), hmac_of("", "token-1")) is None
    assert computed == []
