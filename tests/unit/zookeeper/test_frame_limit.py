"""The limit of a request is found by connections that the server closes."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from emulator.zookeeper import jute
from emulator.zookeeper.frame_limit import BEGIN_BYTES, BYTES_MIN, PATIENCE, FrameLimit
from emulator.zookeeper.ops import Create, GetData, MultiRead, SetData, ZkLost, ZkResult
from tests.unit.zookeeper.world import World

DATA = b"x" * 70_000


def tried(limit: FrameLimit, server: int, size: int) -> bool:
    """Send one request of ``size`` bytes to a server with that limit."""
    if size > server:
        limit.broken(size, reads=False)
        return False
    limit.answered(size)
    return True


@given(st.integers(BYTES_MIN, BEGIN_BYTES), st.integers(0, 3))
def test_a_limit_of_any_size_is_found_in_a_few_connections(server: int, small: int) -> None:
    limit = FrameLimit()
    broken = 0
    for _ in range(2_000):
        for _each in range(small):
            tried(limit, server, 100)
        broken += not tried(limit, server, limit.bytes)
    assert limit.bytes <= server or limit._refused is None or limit._raised
    assert broken <= 2 + 9 + 6, "two, then one for each halving, then two for each attempt"
    assert limit.bytes * 4 >= min(server, BEGIN_BYTES)


def test_one_connection_that_ends_says_nothing() -> None:
    limit = FrameLimit()
    for _ in range(100):
        limit.broken(300_000, reads=False)
        limit.answered(200)
        limit.answered(300_000)
    assert (limit.bytes, limit.halved_count) == (BEGIN_BYTES, 0)


def test_short_requests_say_nothing() -> None:
    limit = FrameLimit()
    for _ in range(100):
        limit.broken(BYTES_MIN - 1, reads=False)
    assert (limit.bytes, limit.halved_count) == (BEGIN_BYTES, 0)


def test_a_server_that_closed_for_another_cause_is_trusted_again() -> None:
    """Such as a full disk: each write ended it, whatever its size."""
    limit = FrameLimit()
    for _ in range(30):
        limit.broken(limit.bytes, reads=True)
    assert limit.bytes == limit.answer_bytes == BYTES_MIN
    for _ in range(10 * PATIENCE):
        limit.answered(limit.bytes)
    assert limit.bytes == limit.answer_bytes == BEGIN_BYTES
    assert not limit.refuses(BEGIN_BYTES)


def test_a_server_that_ends_at_random_for_months_does_not_lower_it_for_good() -> None:
    """Two large requests in a row are lost now and then; ten thousand are answered in between."""
    limit = FrameLimit()
    for _ in range(50):
        while limit.bytes > BEGIN_BYTES // 8:
            limit.broken(limit.bytes, reads=True)
        for _each in range(10 * PATIENCE):
            limit.answered(limit.bytes)
        assert limit.bytes == limit.answer_bytes == BEGIN_BYTES


def test_connections_that_end_at_random_say_nothing_of_sizes_that_were_answered() -> None:
    """It fell to 1 KiB in one step: two small requests in a row were lost, one of 20 kB before."""
    limit, rng = FrameLimit(), Random(5)
    limit.answered(20_000)
    for _ in range(3_000):
        size = rng.choice((1_500, 4_000, 15_000))
        if rng.random() < 0.05:
            limit.broken(size, reads=True)
        else:
            limit.answered(size)
    assert (limit.bytes, limit.halved_count) == (BEGIN_BYTES, 0)


def test_a_server_that_takes_less_than_before_is_noticed_all_the_same() -> None:
    limit = FrameLimit()
    assert tried(limit, 1_000_000, 300_000)
    broken = 0
    while not tried(limit, 50_000, min(limit.bytes, 300_000)):
        broken += 1
    assert broken <= 4 + 3 + 3
    assert limit.bytes <= 50_000


def test_an_answer_to_a_request_about_as_large_ends_the_suspicion() -> None:
    """Requests of full size differ a little in length, by what is in them."""
    limit = FrameLimit()
    for _ in range(100):
        limit.broken(300_000, reads=False)
        limit.answered(299_000)
    assert (limit.bytes, limit.halved_count) == (BEGIN_BYTES, 0)
    assert not limit.refuses(300_000)


def test_attempts_to_raise_it_become_rare() -> None:
    limit = FrameLimit()
    server, broken = 100_000, 0
    for _ in range(200_000):
        broken += not tried(limit, server, limit.bytes)
    assert broken < 30
    assert limit.bytes >= 25_000


def test_a_client_learns_it_from_its_requests_and_keeps_it_over_sessions() -> None:
    world = World()
    world.model.frame_bytes_max = 65_535
    world.start()
    world.ask(Create("/t", b""))
    for _ in range(2):
        assert isinstance(world.ask(SetData("/t", DATA)), ZkLost)
        world.advance(5_000)
    assert world.client.connected
    assert not world.client.limit.refuses(65_000)
    assert world.client.limit.refuses(len(DATA) + 100)
    assert world.client.limit.bytes in range(35_000, 35_100)
    assert isinstance(world.ask(SetData("/t", DATA[:60_000])), ZkResult)
    assert world.client.limit.bytes == 60_000 + len(jute.encode_request(SetData("/t", b""), 1)) - 4


def test_connections_that_we_close_ourselves_say_nothing() -> None:
    world = World()
    world.start()
    world.ask(Create("/t", b""))
    for _ in range(4):
        world.dropping_replies = True
        world.perform(world.client.submit("lost", SetData("/t", DATA), world.now_ms))
        world.advance(6_000)
        world.dropping_replies = False
        world.advance(6_000)
    assert world.client.generation > 2
    assert world.client.limit.halved_count == 0


def test_no_answer_of_a_multi_is_much_longer_than_the_multi() -> None:
    """The shortest of Kafka's znodes that are set: the answer is a stat, whatever was written."""
    shortest = SetData("/config/ips/1", b'{"version":1,"config":{}}')
    assert 9 + jute._STAT.size <= 4 * jute.op_size(shortest) / 3


def test_reading_in_vain_halves_the_answers_too() -> None:
    world = World()
    world.model.frame_bytes_max = 5_000
    world.start()
    reads = MultiRead(tuple(GetData(f"/{number:060}") for number in range(100)))
    for _ in range(2):
        assert isinstance(world.ask(reads), ZkLost)
        world.advance(5_000)
    assert world.client.limit.answer_bytes == BEGIN_BYTES // 2
