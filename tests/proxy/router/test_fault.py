import pytest

from outlier import SeededRandom
from proxy.config.route_config import Fault
from proxy.response_flags import ResponseFlag
from proxy.router.fault import Abort, compile_abort, draw_abort, draw_delay_ms
from proxy.router.local_reply import LocalReply

NOTHING = Fault()


class Fixed:
    """Always the same draw."""

    def __init__(self, value):
        self.value = value
        self.draws = 0

    def random(self):
        self.draws += 1
        return self.value


def reply(status):
    return LocalReply(status, b"fault filter abort", ResponseFlag.FAULT_INJECTED, "fault_filter_abort")


@pytest.mark.parametrize(
    ("per_million", "drawn", "hit"),
    [
        (1, 0, True),
        (1, 1, False),
        (500_000, 499_999, True),
        (500_000, 500_000, False),
        (999_999, 999_999, False),
        (1_000_000, 999_999, True),
        (1, 1_000_000, True),
    ],
)
def test_draw_below_the_share_is_hit(per_million, drawn, hit):
    fault = Fault(delay_ms=5, delay_per_million=per_million, abort_http_status=503, abort_per_million=per_million)

    assert draw_delay_ms(fault, Fixed(drawn)) == (5 if hit else 0)
    assert draw_abort(fault, Fixed(drawn)) is hit


def test_share_of_zero_never_draws():
    random = Fixed(0)
    fault = Fault(delay_ms=5, abort_http_status=503)

    assert draw_delay_ms(fault, random) == 0
    assert not draw_abort(fault, random)
    assert random.draws == 0


def test_delay_and_abort_are_drawn_apart():
    random = SeededRandom(3)
    fault = Fault(delay_ms=5, delay_per_million=250_000, abort_http_status=503, abort_per_million=500_000)
    drawn = [(draw_delay_ms(fault, random) > 0, draw_abort(fault, random)) for _ in range(4_000)]

    assert [drawn.count(pair) / 4_000 for pair in ((True, True), (True, False), (False, True))] == pytest.approx(
        [0.125, 0.125, 0.375], abs=0.03
    )


def test_http_abort():
    assert compile_abort(Fault(abort_http_status=418, abort_per_million=1)) == Abort(reply(418))


def test_grpc_abort_is_200_for_other_clients():
    assert compile_abort(Fault(abort_grpc_status="UNAVAILABLE", abort_per_million=1)) == Abort(reply(200), 14)


@pytest.mark.parametrize("fault", [NOTHING, Fault(abort_http_status=503), Fault(abort_per_million=1)])
def test_fault_that_aborts_nothing(fault):
    assert compile_abort(fault) is None
