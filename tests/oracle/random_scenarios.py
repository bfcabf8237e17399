"""Scenarios by chance: the same seed and number give the same scenario, on any machine."""

import random
from collections.abc import Sequence
from typing import Any

from tests.oracle.scenario import (
    ABORT,
    OK,
    REFUSE,
    AwaitSweep,
    AwaitUnejection,
    Load,
    Play,
    Probe,
    Rest,
    Scenario,
    Step,
)

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

    Of four scenarios two play any answers while nothing is ever unejected, one lets hosts come back, several times, and
    one is about the rates that a sweep judges, with fields that no DestinationRule reaches.
    """
    chance = random.Random(f"{seed}/{number}")
    name = f"random scenario {number} of seed {seed}"
    if number % 4 == 3:
        return _rates_scenario(chance, name)
    timed = number % 4 == 2
    hosts = chance.choice((1, 2, 2, 3, 3, 3, 4, 5, 6, 10))
    rule = _rule(chance)
    steps = _timed_steps(chance, hosts, rule) if timed else _steps(chance, hosts)
    return Scenario(
        name=name,
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


def _rates_scenario(chance: random.Random, name: str) -> Scenario:
    hosts = chance.randint(2, 6)
    requests = chance.choice((8, 10, 15, 20))
    # Mostly the same number of failures or none, so that averages meet their thresholds exactly.
    failures = (0, 0, 0, requests // 2, requests, chance.randint(0, requests))
    split = chance.random() < 0.4
    fields: dict[str, Any] = {
        "success_rate_minimum_hosts": chance.randint(1, hosts + 1),
        "success_rate_request_volume": chance.choice((8, 10, 15, 20)),
        "success_rate_stdev_factor": chance.choice((0, 500, 1_000, 1_414, 1_900)),
        "failure_percentage_minimum_hosts": chance.randint(1, hosts + 1),
        "failure_percentage_request_volume": chance.choice((8, 10, 15, 20)),
        "failure_percentage_threshold": chance.choice((0, 50, 51, 85, 100)),
    }
    enforceable = ["enforcing_success_rate", "enforcing_failure_percentage"]
    if split:
        fields["consecutive_local_origin_failure"] = 0
        enforceable += ["enforcing_local_origin_success_rate", "enforcing_failure_percentage_local_origin"]
    fields |= dict.fromkeys(enforceable, 0) | {chance.choice(enforceable): 100}
    load = Load(
        requests,
        tuple(chance.choice(failures) for _ in range(hosts)),
        chance.choice(("500", "reset", "fin")) if split else "500",
    )
    # A sweep judges what came since the last one, and the end of an ejection is a sweep; the few requests before it
    # stay below the least volume. Where Envoy's order of hosts, a hash map's, decides who goes, there is nothing to
    # compare: so all hosts may go, and one measure is enforced, for a host ejected by two counts twice towards the
    # cap.
    return Scenario(
        name=name,
        hosts=hosts,
        rule={
            "consecutive5xxErrors": 0,
            "consecutiveGatewayErrors": 1,
            "maxEjectionPercent": 100,
            "splitExternalLocalOriginErrors": split,
        },
        overrides=fields,
        steps=(Play(0, ("503",)), AwaitUnejection(), load, AwaitSweep(), Probe()),
        interval_ms=4_000,
        base_ejection_time_ms=500,
    )
