"""Scenarios by chance: the same seed and number give the same scenario, on any machine."""

import random
from collections.abc import Sequence
from typing import Any

from tests.oracle.scenario import ABORT, OK, REFUSE, AwaitUnejection, Play, Probe, Rest, Scenario, Step

# How often each kind of answer is drawn.
_ANSWERS = {
    "500": 6,
    "503": 6,
    "502": 2,
    "504": 2,
    OK: 3,
    "404": 1,
    "429": 1,
    "501": 1,
    "reset": 2,
    "fin": 2,
    REFUSE: 3,
    "hang": 1,
    "garbage": 1,
    "cut": 1,
    "stall": 0.3,
    ABORT: 1,
    "early-hints": 0.5,
    "degraded": 0.5,
}
# An ejection runs while these are played, so none of them may wait for a timeout.
_QUICK = ("500", "503", "502", "504", "reset", "fin", REFUSE)
_TIMED = {"interval_ms": 1_000, "base_ejection_time_ms": 1_500}


BALANCERS = ("ROUND_ROBIN", "RING_HASH")


def random_scenario(seed: str, number: int, balancers: Sequence[str] = BALANCERS) -> Scenario:
    """Return scenario `number` of a seed, with one of the balancers.

    Two of three scenarios play any answers while nothing is ever unejected; the third lets hosts come back, several
    times.
    """
    chance = random.Random(f"{seed}/{number}")
    timed = number % 3 == 2
    hosts = chance.choice((1, 2, 2, 3, 3, 3, 4, 5, 6, 10))
    rule = _rule(chance)
    steps = _timed_steps(chance, hosts, rule) if timed else _steps(chance, hosts)
    return Scenario(
        name=f"random scenario {number} of seed {seed}",
        hosts=hosts,
        rule=rule,
        steps=steps,
        balancer=chance.choice(balancers),
        **(_TIMED if timed else {}),
    )


def _rule(chance: random.Random) -> dict[str, Any]:
    rule: dict[str, Any] = {}
    if chance.random() < 0.75:
        rule["consecutive5xxErrors"] = chance.choice((0, 1, 1, 2, 2, 3, 3, 4, 5))
    if chance.random() < 0.6:
        rule["consecutiveGatewayErrors"] = chance.choice((0, 1, 2, 2, 3, 4))
    if chance.random() < 0.85:
        rule["maxEjectionPercent"] = chance.choice((0, 10, 33, 34, 50, 50, 66, 67, 100, 100, 100, 100))
    if chance.random() < 0.5:
        rule["minHealthPercent"] = chance.choice((0, 1, 29, 30, 50, 50, 58, 70, 100))
    if chance.random() < 0.35:
        rule["splitExternalLocalOriginErrors"] = True
        if chance.random() < 0.8:
            rule["consecutiveLocalOriginFailures"] = chance.choice((0, 1, 1, 2, 2, 3))
    if chance.random() < 0.1:
        rule["outlierDetectionHttpErrorCodes"] = chance.sample((404, 429, 500, 503, 504), chance.randint(1, 3))
    return rule


def _steps(chance: random.Random, hosts: int) -> tuple[Step, ...]:
    steps: list[Step] = []
    for _ in range(chance.randint(2, 6)):
        if chance.random() < 0.5:
            answers = chance.choices(list(_ANSWERS), list(_ANSWERS.values()), k=chance.randint(1, 8))
        else:
            answers = chance.choices(list(_ANSWERS), list(_ANSWERS.values())) * chance.randint(2, 6)
        steps.append(Play(chance.randrange(hosts), tuple(answers)))
        if chance.random() < 0.3:
            steps.append(Probe())
    return (*steps, Probe())


def _timed_steps(chance: random.Random, hosts: int, rule: dict[str, Any]) -> tuple[Step, ...]:
    # A low threshold: the next ejection must come before the multiplier has a whole interval to shrink in.
    rule["consecutive5xxErrors"] = chance.choice((1, 2, 3))
    steps: list[Step] = []
    for ejections in range(1, chance.choice((3, 3, 4))):
        answers = (chance.choice(_QUICK),) * chance.choice((1, 2, 3, 3))
        steps += (Play(chance.randrange(hosts), answers), AwaitUnejection())
        if chance.random() < 0.4:
            steps.append(Rest(ejections + 1))
    return (*steps, Probe())
