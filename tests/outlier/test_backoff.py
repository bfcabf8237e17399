import pytest

from outlier import EnvoyRelease, ListedRandom

BASE = {"base_ejection_time_ms": 10_000, "max_ejection_time_ms": 30_000, "interval_ms": 10_000}


def test_ejection_ends_with_the_first_sweep_at_or_after_its_time(make_cluster):
    subject = make_cluster(hosts=1, **BASE)
    subject.eject(subject.hosts[0])
    subject.sweep(9_999)
    early = subject.ejected()
    subject.sweep(10_000)

    assert (early, subject.ejected()) == ([subject.hosts[0].address], [])


def test_each_ejection_lasts_longer_up_to_the_maximum(make_cluster):
    subject = make_cluster(hosts=1, **BASE)
    host = subject.hosts[0]
    lengths = []
    for _ in range(5):
        subject.eject(host)
        lengths.append(subject.detector.backoff.ejection_time_ms(host))
        subject.sweep(subject.time.monotonic_ms() + 30_000)

    assert lengths == [10_000, 20_000, 30_000, 30_000, 30_000]


def test_multiplier_may_pass_the_maximum_by_one_step(make_cluster):
    subject = make_cluster(hosts=1, **BASE)
    host = subject.hosts[0]
    multipliers = []
    for _ in range(5):
        subject.eject(host)
        multipliers.append(host.backoff)
        subject.sweep(subject.time.monotonic_ms() + 30_000)

    assert multipliers == [1, 2, 3, 4, 4]


def ejected_twice(subject):
    """Leave the first host back in, at time 30000, with the multiplier 2."""
    for _ in range(2):
        subject.eject(subject.hosts[0])
        subject.sweep(subject.time.monotonic_ms() + 10_000 * subject.hosts[0].backoff)
    assert (subject.time.monotonic_ms(), subject.hosts[0].backoff) == (30_000, 2)


@pytest.mark.parametrize(("after_ms", "multiplier"), [(9_999, 2), (10_000, 1)], ids=["just under", "exactly"])
def test_multiplier_falls_after_a_whole_interval_in(make_cluster, after_ms, multiplier):
    subject = make_cluster(hosts=1, **BASE)
    ejected_twice(subject)
    subject.sweep(30_000 + after_ms)

    assert subject.hosts[0].backoff == multiplier


def test_interval_that_counts_is_the_one_in_force(make_cluster):
    subject = make_cluster(hosts=1, **BASE)
    ejected_twice(subject)
    subject.override(interval_ms=5_000)
    subject.sweep(35_000)

    assert subject.hosts[0].backoff == 1


def test_multiplier_does_not_fall_below_zero(make_cluster):
    subject = make_cluster(hosts=1, **BASE)
    ejected_twice(subject)
    for at_ms in range(40_000, 100_000, 10_000):
        subject.sweep(at_ms)

    assert subject.hosts[0].backoff == 0


def test_multiplier_stays_while_ejected(make_cluster):
    subject = make_cluster(hosts=1, base_ejection_time_ms=100_000)
    subject.eject(subject.hosts[0])
    subject.sweep(100_000)
    subject.eject(subject.hosts[0])
    for at_ms in (150_000, 200_000, 250_000):
        subject.sweep(at_ms)

    assert (subject.hosts[0].backoff, subject.hosts[0].ejected) == (2, True)


def test_jitter_is_drawn_for_each_ejection(make_cluster):
    subject = make_cluster(hosts=1, max_ejection_time_jitter_ms=99, random=ListedRandom([250, 30]), **BASE)
    host = subject.hosts[0]
    subject.eject(host)
    first = host.jitter_ms
    subject.sweep(10_049)
    early = host.ejected
    subject.sweep(10_050)
    late = host.ejected
    subject.eject(host)

    assert (first, early, late, host.jitter_ms) == (50, True, False, 30)


def test_jitter_bound_is_included(make_cluster):
    subject = make_cluster(hosts=1, max_ejection_time_jitter_ms=99, random=ListedRandom([99]))
    subject.eject(subject.hosts[0])

    assert subject.hosts[0].jitter_ms == 99


def test_jitter_uses_up_a_number_even_without_a_bound(make_cluster):
    subject = make_cluster(hosts=2, random=ListedRandom([7, 11]))
    subject.eject(subject.hosts[0])
    subject.override(max_ejection_time_jitter_ms=1000)
    subject.eject(subject.hosts[1])

    assert [host.jitter_ms for host in subject.hosts] == [0, 11]


def test_jitter_comes_on_top_of_the_maximum(make_cluster):
    subject = make_cluster(
        hosts=1,
        base_ejection_time_ms=10,
        max_ejection_time_ms=10,
        max_ejection_time_jitter_ms=5,
        random=ListedRandom([5]),
    )
    subject.eject(subject.hosts[0])

    assert subject.detector.backoff.ejection_time_ms(subject.hosts[0]) == 15


def test_maximum_below_the_base_wins(make_cluster):
    """A runtime override is not validated against the base."""
    subject = make_cluster(hosts=1, **BASE)
    subject.override(max_ejection_time_ms=2_000)
    subject.eject(subject.hosts[0])
    subject.sweep(2_000)

    assert subject.ejected() == []


def test_times_follow_the_runtime_while_ejected(make_cluster):
    subject = make_cluster(hosts=1, **BASE)
    subject.eject(subject.hosts[0])
    subject.override(base_ejection_time_ms=3_000)
    subject.sweep(3_000)

    assert subject.ejected() == []


def test_ejection_time_before_1_17_is_base_times_all_ejections(make_cluster):
    subject = make_cluster(hosts=1, release=EnvoyRelease.V1_8, **BASE)
    host = subject.hosts[0]
    lengths = []
    for _ in range(5):
        subject.eject(host)
        lengths.append(subject.detector.backoff.ejection_time_ms(host))
        subject.sweep(subject.time.monotonic_ms() + 1_000_000)

    assert lengths == [10_000, 20_000, 30_000, 40_000, 50_000]


def test_before_1_28_the_sweep_lowers_before_it_ejects(make_cluster):
    subject = make_cluster(
        hosts=1, release=EnvoyRelease.V1_27, failure_percentage_minimum_hosts=1, enforcing_failure_percentage=100,
        enforcing_consecutive_5xx=0, **BASE,
    )  # fmt: skip
    host = subject.hosts[0]
    multipliers = []
    for at_ms in range(10_000, 90_000, 20_000):
        subject.load_requests(host, 100, 500)
        subject.sweep(at_ms)
        multipliers.append(host.backoff)
        subject.sweep(at_ms + 10_000)

    assert multipliers == [1, 1, 1, 1]


def test_unejection_keeps_multiplier_and_counts(make_cluster):
    subject = make_cluster(hosts=1, **BASE)
    host = subject.hosts[0]
    subject.eject(host)
    subject.load_requests(host, 3, 503)
    subject.sweep(10_000)

    assert (host.backoff, host.num_ejections, host.external.last_total) == (1, 1, 8)
    assert (host.consecutive_5xx, host.consecutive_gateway_failure) == (0, 0)
