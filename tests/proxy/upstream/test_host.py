"""Health flags of a host: what they add up to, and what a new configuration of it changes."""

import pytest

from proxy.config.cluster_config import Endpoint, HealthStatus, Locality
from proxy.upstream.host import HealthFlag, Host

ADDRESS = "127.0.0.1:80"
UNHEALTHY = (
    HealthFlag.FAILED_ACTIVE_HC,
    HealthFlag.FAILED_OUTLIER_CHECK,
    HealthFlag.FAILED_EDS_HEALTH,
    HealthFlag.EDS_STATUS_DRAINING,
)
DEGRADED = (HealthFlag.DEGRADED_ACTIVE_HC, HealthFlag.DEGRADED_EDS_HEALTH, HealthFlag.DEGRADED_OUTLIER_DETECTION)


def host(*flags: HealthFlag, **endpoint) -> Host:
    subject = Host(Endpoint(address=ADDRESS, **endpoint))
    for flag in flags:
        subject.set_flag(flag)
    return subject


def health(subject: Host) -> str:
    """Return the one of the three words that holds."""
    words = {"healthy": subject.healthy, "degraded": subject.degraded, "unhealthy": subject.unhealthy}
    (word,) = [word for word, holds in words.items() if holds]
    return word


def test_without_flags_a_host_is_healthy():
    assert health(host()) == "healthy"


@pytest.mark.parametrize("flag", UNHEALTHY, ids=lambda flag: flag.name)
@pytest.mark.parametrize("other", [None, *DEGRADED], ids=str)
def test_one_unhealthy_flag_outweighs_every_other(flag, other):
    assert health(host(flag, *([other] if other else []))) == "unhealthy"


@pytest.mark.parametrize("flag", DEGRADED, ids=lambda flag: flag.name)
def test_degraded_is_neither(flag):
    assert health(host(flag)) == "degraded"


@pytest.mark.parametrize("flag", sorted(set(HealthFlag) - {*UNHEALTHY, *DEGRADED}), ids=lambda flag: flag.name)
def test_other_flags_say_nothing_of_health(flag):
    assert health(host(flag)) == "healthy"


@pytest.mark.parametrize("flag", sorted(set(HealthFlag) - {HealthFlag.PENDING_ACTIVE_HC}), ids=lambda flag: flag.name)
def test_excluded_hosts_leave_the_denominator(flag):
    expected = flag in {HealthFlag.EXCLUDED_VIA_IMMEDIATE_HC_FAIL, HealthFlag.EDS_STATUS_DRAINING}

    assert host(flag).excluded is expected


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (HealthStatus.UNKNOWN, "healthy"),
        (HealthStatus.HEALTHY, "healthy"),
        (HealthStatus.UNHEALTHY, "/failed_eds_health"),
        (HealthStatus.TIMEOUT, "/failed_eds_health"),
        (HealthStatus.DRAINING, "/eds_status_draining"),
        (HealthStatus.DEGRADED, "/degraded_eds_health"),
    ],
)
def test_configured_health_is_a_flag(status, text):
    assert host(health_status=status).health_flags_text() == text


def test_flags_are_printed_in_the_order_of_clusters():
    subject = host(HealthFlag.DEGRADED_EDS_HEALTH, HealthFlag.FAILED_OUTLIER_CHECK, HealthFlag.FAILED_ACTIVE_HC)

    assert subject.health_flags_text() == "/failed_active_hc/failed_outlier_check/degraded_eds_health"


def test_update_replaces_configured_health_and_keeps_what_was_found_out():
    subject = host(HealthFlag.FAILED_OUTLIER_CHECK, health_status=HealthStatus.DRAINING)

    subject.update(
        Endpoint(address=ADDRESS, weight=3, priority=1, locality=Locality("r"), health_status=HealthStatus.DEGRADED)
    )

    assert subject.health_flags_text() == "/failed_outlier_check/degraded_eds_health"
    assert (subject.weight, subject.priority, subject.locality) == (3, 1, Locality("r"))


def test_a_flag_can_be_put_either_way():
    subject = host()
    subject.put_flag(HealthFlag.FAILED_ACTIVE_HC, on=True)
    assert subject.has_flag(HealthFlag.FAILED_ACTIVE_HC)
    subject.put_flag(HealthFlag.FAILED_ACTIVE_HC, on=False)

    assert not subject.has_flag(HealthFlag.FAILED_ACTIVE_HC)


def test_flags_stay_a_plain_integer_for_those_who_read_them_on_every_request():
    subject = host(HealthFlag.FAILED_OUTLIER_CHECK)
    seen = [type(subject.health_flags)]
    subject.clear_flag(HealthFlag.FAILED_OUTLIER_CHECK)
    seen.append(type(subject.health_flags))

    assert seen == [int, int]
