import pytest

from outlier import ListedRandom, RandomGenerator, SeededRandom, SimulatedTime, TimeSource


def test_simulated_time_moves_only_when_told():
    time = SimulatedTime(5, epoch_ms=1000)
    time.advance(0)
    time.advance(7)

    assert (time.monotonic_ms(), time.system_ms(), repr(time)) == (12, 1012, "SimulatedTime(12 ms)")


def test_time_does_not_advance_backwards():
    with pytest.raises(ValueError, match="cannot go back by 1 ms"):
        SimulatedTime().advance(-1)


def test_setting_the_time_may_go_backwards():
    time = SimulatedTime(10)
    time.set_ms(3)

    assert time.monotonic_ms() == 3


def test_seeded_random_follows_splitmix64():
    """The reference implementation's first numbers for seed 1234567."""
    random = SeededRandom(1234567)

    assert [random.random() for _ in range(3)] == [6457827717110365317, 3203168211198807973, 9817491932198370423]


def test_other_seed_gives_other_numbers():
    assert SeededRandom(1).random() != SeededRandom(2).random()


def test_listed_random_ends_in_zeros():
    random = ListedRandom([3, 1])

    assert [random.random() for _ in range(4)] == [3, 1, 0, 0]


def test_sources_are_what_the_engine_asks_for():
    assert isinstance(SimulatedTime(), TimeSource)
    assert isinstance(SeededRandom(), RandomGenerator)
    assert isinstance(ListedRandom(), RandomGenerator)
