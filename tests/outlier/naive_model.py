"""Outlier detection once more, as plainly as it can be said: what the engine is held against.

Written from the description of Envoy's behaviour, by version number and without the engine's tables, classes or
names: one function a rule, lists instead of counters, no care for speed. It shares nothing with `outlier` but the
random source and the names of settings.
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction

GATEWAY = (502, 503, 504)
STATUS_OF = {"ext_ok": 200, "ext_fail": 500, "connect_final": 200, "connect_fail": 503, "timeout": 504, "degraded": 200}


@dataclass(eq=False)
class ModelHost:
    name: str
    run_5xx: int = 0
    run_gateway: int = 0
    run_local: int = 0
    external: list[bool] = field(default_factory=list)
    local: list[bool] = field(default_factory=list)
    shown_external: float = -1.0
    shown_local: float = -1.0
    out: bool = False
    out_since: int = 0
    back_since: int | None = None
    times_out: int = 0
    multiplier: int = 0
    jitter: int = 0
    marked: bool = False
    marked_since: int = 0
    unmarked_since: int | None = None
    mark_multiplier: int = 0


class NaiveModel:
    """A cluster's detection under the Envoy `version`, a pair such as (1, 40)."""

    def __init__(self, version, settings, random, checker):
        self.version = version
        self.settings = settings
        self.random = random
        self.checker = checker
        self.overrides = {}
        self.hosts = []
        self.active = 0
        self.counters = {}
        self.events = []
        self.now = 0
        self.averages = {"external": (-1.0, -1.0), "local": (-1.0, -1.0)}
        self.leaked = 0

    def get(self, name):
        return self.overrides.get(name, self.settings[name])

    def count(self, name):
        self.counters[name] = self.counters.get(name, 0) + 1

    @property
    def split(self):
        return self.version >= (1, 11) and self.settings["split_external_local_origin_errors"]

    def new_settings(self, settings):
        """Ours, not Envoy's: hosts keep their state; a run too long for its new threshold is cut to one short."""
        self.settings = settings
        if not self.split:
            self.averages["local"] = (-1.0, -1.0)
        for host in self.hosts:
            if not self.split:
                host.local, host.run_local, host.shown_local = [], 0, -1.0
            host.run_5xx = self.cut(host.run_5xx, "consecutive_5xx")
            host.run_gateway = self.cut(host.run_gateway, "consecutive_gateway_failure")
            host.run_local = self.cut(host.run_local, "consecutive_local_origin_failure")

    def cut(self, run, name):
        threshold = self.get(name)
        return threshold - 1 if threshold and run >= threshold else run

    # What hosts report

    def status(self, host, code):
        ok = not (500 <= code < 600)
        host.external.append(ok)
        if ok:
            host.run_5xx = host.run_gateway = 0
            return
        if code in GATEWAY:
            host.run_gateway += 1
            if host.run_gateway == self.get("consecutive_gateway_failure"):
                self.in_a_row(host, "consecutive_gateway_failure")
        else:
            host.run_gateway = 0
        host.run_5xx += 1
        if host.run_5xx == self.get("consecutive_5xx"):
            self.in_a_row(host, "consecutive_5xx")

    def result(self, host, what, code):
        if self.split:
            self.split_result(host, what, code)
            return
        if code is None:
            if what == "connect_ok":
                return
            code = STATUS_OF[what]
        if what == "degraded":
            self.mark(host)
        self.status(host, code)

    def split_result(self, host, what, code):
        if what in ("connect_ok", "connect_final"):
            host.local.append(True)
            host.run_local = 0
        elif what in ("connect_fail", "timeout"):
            host.local.append(False)
            host.run_local += 1
            if host.run_local == self.get("consecutive_local_origin_failure"):
                self.in_a_row(host, "consecutive_local_origin_failure")
        elif what == "degraded":
            self.mark(host)
            self.status(host, 200 if code is None else code)
        elif self.version >= (1, 36):
            usual = 200 if what == "ext_ok" else 503
            self.status(host, usual if code is None else code)
        elif what == "ext_ok":
            host.local.append(True)
            host.run_local = 0
            self.status(host, 200)
        else:
            self.status(host, 503)

    def in_a_row(self, host, kind):
        if host not in self.hosts or host.out:
            return
        self.count(f"ejections_detected_{kind}")
        if kind == "consecutive_5xx":
            self.count("ejections_consecutive_5xx")
        self.try_eject(host, kind)
        if kind == "consecutive_5xx":
            host.run_5xx = 0
        elif kind == "consecutive_gateway_failure":
            host.run_gateway = 0
        else:
            host.run_local = 0

    def mark(self, host):
        if self.version < (1, 38) or not self.settings["detect_degraded_hosts"]:
            return
        if host not in self.hosts or host.marked:
            return
        self.count("ejections_detected_degradation")
        host.marked = True
        host.marked_since = self.now
        self.draw_jitter(host)
        host.mark_multiplier = self.grown(host.mark_multiplier)
        self.events.append(("EJECT", host.name, "degraded", True, host.times_out))

    # Going out and coming back

    def may_go(self):
        cap = min(100, self.get("max_ejection_percent"))
        if self.version >= (1, 28):
            within = Fraction(100 * (self.active + 1), len(self.hosts)) <= cap
        else:
            within = Fraction(100 * self.active, len(self.hosts)) < cap
        first = self.version >= (1, 31) and self.settings["always_eject_one_host"] and self.active == 0
        return within or first

    def try_eject(self, host, kind):
        if not self.may_go():
            self.count("ejections_overflow")
            return
        if kind in ("consecutive_5xx", "success_rate"):
            self.count("ejections_total")
        if not self.chance(kind):
            self.events.append(("EJECT", host.name, kind, False, host.times_out))
            return
        if host.out:
            self.leaked += 1
        self.active += 1
        self.count("ejections_enforced_total")
        self.count(f"ejections_enforced_{kind}")
        host.out = True
        host.times_out += 1
        host.out_since = self.now
        self.draw_jitter(host)
        host.multiplier = self.grown(host.multiplier)
        self.events.append(("EJECT", host.name, kind, True, host.times_out))

    def chance(self, kind):
        setting = {
            "local_origin_success_rate": "enforcing_local_origin_success_rate",
            "local_origin_failure_percentage": "enforcing_failure_percentage_local_origin",
        }.get(kind, f"enforcing_{kind}")
        percent = min(100, self.get(setting))
        if percent == 0:
            return False
        return percent == 100 or self.random.random() % 100 < percent

    def draw_jitter(self, host):
        if self.version >= (1, 22):
            host.jitter = self.random.random() % (self.get("max_ejection_time_jitter_ms") + 1)

    def grown(self, multiplier):
        base, longest = self.get("base_ejection_time_ms"), self.get("max_ejection_time_ms")
        return multiplier if multiplier * base >= longest + base else multiplier + 1

    def lasts(self, host, multiplier):
        base = self.get("base_ejection_time_ms")
        if self.version < (1, 17):
            return base * host.times_out
        return min(base * multiplier, self.get("max_ejection_time_ms")) + host.jitter

    def bring_back(self, host):
        self.active -= 1
        host.out = False
        host.back_since = self.now
        host.run_5xx = host.run_gateway = host.run_local = 0
        self.events.append(("UNEJECT", host.name, None, False, host.times_out))

    def remove(self, host):
        self.hosts.remove(host)
        if host.out:
            self.active -= 1

    def checked(self, host, healthy, failed):
        if not self.checker or self.version < (1, 26) or host not in self.hosts:
            return
        if self.version >= (1, 28) and not self.settings["successful_active_health_check_uneject_host"]:
            return
        if self.version >= (1, 31) and not healthy:
            return
        if host.out and not failed:
            self.bring_back(host)

    # The sweep

    def sweep(self):
        last = {"external": {}, "local": {}}
        for host in self.hosts:
            if host.out:
                if self.now - host.out_since >= self.lasts(host, host.multiplier):
                    self.bring_back(host)
            elif (1, 17) <= self.version < (1, 28):
                host.multiplier = max(0, host.multiplier - 1)
            if host.marked and self.now - host.marked_since >= self.lasts(host, host.mark_multiplier):
                host.marked = False
                host.unmarked_since = self.now
                self.events.append(("UNEJECT", host.name, None, False, host.times_out))
            last["external"][host], last["local"][host] = host.external, host.local
            host.external, host.local = [], []
            host.shown_external = host.shown_local = -1.0
        self.judge("external", "", last["external"])
        if self.version >= (1, 11):
            self.judge("local", "local_origin_", last["local"])
        if self.version >= (1, 28):
            interval = self.get("interval_ms")
            for host in self.hosts:
                if not host.out and host.back_since is not None and self.now - host.back_since >= interval:
                    host.multiplier = max(0, host.multiplier - 1)
                if not host.marked and host.unmarked_since is not None and self.now - host.unmarked_since >= interval:
                    host.mark_multiplier = max(0, host.mark_multiplier - 1)

    def judge(self, origin, prefix, last):
        self.averages[origin] = (-1.0, -1.0)
        percentages = self.version >= (1, 12)
        rate_hosts = self.get("success_rate_minimum_hosts")
        percentage_hosts = self.get("failure_percentage_minimum_hosts")
        if len(self.hosts) < rate_hosts and (not percentages or len(self.hosts) < percentage_hosts):
            return
        rate_volume = self.get("success_rate_request_volume")
        percentage_volume = self.get("failure_percentage_request_volume") if percentages else math.inf
        for_rate, for_percentage = [], []
        for host in self.hosts:
            results = last[host]
            if host.out or (not results and percentages):
                continue
            rate = 100.0 * sum(results) / len(results) if results else math.nan
            if len(results) >= min(rate_volume, percentage_volume):
                setattr(host, f"shown_{origin}", rate)
            if len(results) >= rate_volume:
                for_rate.append((host, rate))
            if len(results) >= percentage_volume:
                for_percentage.append((host, rate))
        if for_rate and len(for_rate) >= rate_hosts:
            rates = [rate for _, rate in for_rate]
            mean = sum(rates) / len(rates)
            spread = math.sqrt(sum((rate - mean) ** 2 for rate in rates) / len(rates))
            bound = mean - self.get("success_rate_stdev_factor") / 1000 * spread
            self.averages[origin] = (mean, bound)
            for host, rate in for_rate:
                if rate < bound:
                    self.count("ejections_success_rate")
                    self.count(f"ejections_detected_{prefix}success_rate")
                    self.try_eject(host, f"{prefix}success_rate")
        if for_percentage and len(for_percentage) >= percentage_hosts:
            for host, rate in for_percentage:
                if 100.0 - rate >= self.get("failure_percentage_threshold"):
                    self.count(f"ejections_detected_{prefix}failure_percentage")
                    self.try_eject(host, f"{prefix}failure_percentage")
