"""What a balancer says about itself to people: how loads come about, and which list of hosts a pick is made from.

Frozen data; `/explain` and tests show it.
"""

import attrs


@attrs.frozen(kw_only=True)
class PriorityExplanation:
    """One priority: its hosts, what they could take, what they get, and why. Shares are percent, 0..100.

    `reason` is a sentence about panic.
    """

    priority: int
    hosts: int
    healthy_hosts: int
    degraded_hosts: int
    excluded_hosts: int
    health: int
    degraded_health: int
    load: int
    degraded_load: int
    panic: bool
    reason: str


@attrs.frozen(kw_only=True)
class Choice:
    """A list of hosts that picks are made from.

    `share` is the percent of picks that fall to it. `which` is `all` in panic, `healthy` or `degraded` otherwise.
    `hosts` are addresses in the order of the list; none means that these picks find no host. `method` says how one of
    them is chosen.
    """

    share: int
    priority: int
    which: str
    hosts: tuple[str, ...]
    method: str


@attrs.frozen(kw_only=True)
class Explanation:
    """A balancer at one moment.

    `choices` have shares that sum to 100; a hash narrows them to one. `host` is the address that the hash leads to,
    None without a hash or a host.
    """

    policy: str
    panic_threshold: int
    overprovisioning_factor: int
    priorities: tuple[PriorityExplanation, ...]
    choices: tuple[Choice, ...]
    hash: int | None = None
    host: str | None = None
