"""Small faults for `mutations` to plant, one at a time: a comparison flipped, a reset dropped, an order swapped.

Each entry quotes the code it changes, so a rewritten rule asks for its faults to be rewritten too.
"""

import attrs


@attrs.frozen
class Fault:
    """Replace the only occurrence of `old` in `file` by `new`; `excuse` says why surviving is no gap."""

    name: str
    file: str
    old: str
    new: str
    excuse: str = ""


FAULTS = (
    # The limit
    Fault("limit refuses equality", "ejection.py", "percent <= max_percent", "percent < max_percent"),
    Fault("limit forgets this ejection", "ejection.py", "100.0 * (ejected + 1) / hosts", "100.0 * ejected / hosts"),
    Fault("limit in whole numbers", "ejection.py", "100.0 * (ejected + 1) / hosts", "100 * (ejected + 1) // hosts"),
    Fault(
        "old limit allows equality", "ejection.py", "within = percent < max_percent", "within = percent <= max_percent"
    ),
    Fault("exception for any count", "ejection.py", "always_eject_one_host and ejected == 0", "always_eject_one_host"),
    Fault("exception without its option", "ejection.py", "and always_eject_one_host and ejected", "and ejected"),
    Fault(
        "runtime limit not clamped",
        "runtime.py",
        'min(self.value("max_ejection_percent"), 100)',
        'self.value("max_ejection_percent")',
    ),
    Fault("limit reads the gauge", "detector.py", "if self.behaviour.limit_reads_gauge else", "if True else"),
    # Enforcement and ejection
    Fault("draw allows equality", "runtime.py", "draw < percent", "draw <= percent"),
    Fault("draw when certain", "runtime.py", "if percent in {0, 100}:", "if percent == 0:"),
    Fault("draw out of 101", "runtime.py", "self._random.random() % 100", "self._random.random() % 101"),
    Fault(
        "total counted when over the limit",
        "detector.py",
        "if not limit.allowed:\n",
        "if EJECTION_RULES[ejection_type].in_total:\n            self.stats.ejections_total += 1"
        "\n        if not limit.allowed:\n",
    ),
    Fault("overflow not counted", "detector.py", "self.stats.ejections_overflow += 1", "pass"),
    Fault("total counts gateway", "ejection.py", 'hand_made_name="GatewayFailure",', "in_total=True,"),
    Fault("5xx not in total", "ejection.py", 'in_total=True,\n        hand_made_name="5xx"', 'hand_made_name="5xx"'),
    Fault(
        "local success rate not deprecated",
        "ejection.py",
        'enforced="ejections_enforced_local_origin_success_rate",\n        deprecated="ejections_success_rate",',
        'enforced="ejections_enforced_local_origin_success_rate",',
    ),
    Fault(
        "local percentage enforced as external",
        "ejection.py",
        'enforcing="enforcing_failure_percentage_local_origin"',
        'enforcing="enforcing_failure_percentage"',
    ),
    Fault("ejection not counted on the host", "detector.py", "monitor.num_ejections += 1", "pass"),
    Fault(
        "event before callback",
        "detector.py",
        "self._changed(monitor)\n        self._event_log.log_eject(monitor, detection)\n\n    def _uneject",
        "self._event_log.log_eject(monitor, detection)\n        self._changed(monitor)\n\n    def _uneject",
    ),
    # Runs
    Fault(
        "threshold by >=",
        "host_monitor.py",
        'self.consecutive_5xx == self._settings.value("consecutive_5xx")',
        'self.consecutive_5xx >= self._settings.value("consecutive_5xx")',
    ),
    Fault(
        "500 does not break the gateway run",
        "host_monitor.py",
        "else:\n            self.consecutive_gateway_failure = 0\n        self.consecutive_5xx += 1",
        "self.consecutive_5xx += 1",
    ),
    Fault("501 is a gateway failure", "host_monitor.py", "{502, 503, 504}", "{501, 502, 503, 504}"),
    Fault("504 is no gateway failure", "host_monitor.py", "{502, 503, 504}", "{502, 503}"),
    Fault(
        "5xx judged before gateway",
        "host_monitor.py",
        "        if code in _GATEWAY_CODES:",
        '        if self.consecutive_5xx + 1 == self._settings.value("consecutive_5xx"):\n'
        "            on_failure(self, EjectionType.CONSECUTIVE_5XX)\n            self.consecutive_5xx -= 1\n"
        "        if code in _GATEWAY_CODES:",
    ),
    Fault("run not restarted", "detector.py", "        setattr(monitor, rule.run, 0)", "        pass"),
    Fault("ejected hosts still detected", "detector.py", "elif not monitor.ejected:", "else:"),
    Fault(
        "removed hosts still detected",
        "detector.py",
        "if monitor not in self._hosts:\n            return\n        if ejection_type",
        "if ejection_type",
    ),
    Fault(
        "success keeps the gateway run",
        "host_monitor.py",
        "external.success += 1\n            self.consecutive_5xx = 0\n"
        "            self.consecutive_gateway_failure = 0\n\n"
        "    def put_result",
        "external.success += 1\n            self.consecutive_5xx = 0\n\n    def put_result",
    ),
    Fault(
        "599 is a success",
        "host_monitor.py",
        "if 500 <= code <= 599:\n            self._put_5xx(code)\n        else:\n            external.success += 1\n"
        "            self.consecutive_5xx = 0\n"
        "            self.consecutive_gateway_failure = 0\n\n    def put_response_time",
        "if 500 <= code < 599:\n            self._put_5xx(code)\n        else:\n            external.success += 1\n"
        "            self.consecutive_5xx = 0\n"
        "            self.consecutive_gateway_failure = 0\n\n    def put_response_time",
    ),
    # Results
    Fault(
        "bare failure is 503 when not split",
        "result.py",
        "(None, 200, 503, 504, 200, 500, 200)",
        "(None, 200, 503, 504, 200, 503, 200)",
    ),
    Fault(
        "bare connect success counts",
        "result.py",
        "(None, 200, 503, 504, 200, 500, 200)",
        "(200, 200, 503, 504, 200, 500, 200)",
    ),
    Fault("bare failure is 500 when split", "host_monitor.py", "else 503", "else 500"),
    Fault(
        "answers count as local successes", "host_monitor.py", "if not self._behaviour.split_keeps_code:", "if True:"
    ),
    Fault(
        "connect success keeps the local run",
        "host_monitor.py",
        "self.local.success += 1\n        self.consecutive_local_origin_failure = 0",
        "self.local.success += 1",
    ),
    Fault(
        "degraded mark after the status",
        "host_monitor.py",
        "if result is _REQUEST_DEGRADED:\n            self._put_degraded()\n        external = self.external",
        "external = self.external",
    ),
    # The sweep
    Fault(
        "ejection outlasts its time",
        "detector.py",
        "if self.backoff.ejection_time_ms(monitor) <= now_ms - monitor.last_ejection_ms:",
        "if self.backoff.ejection_time_ms(monitor) < now_ms - monitor.last_ejection_ms:",
    ),
    Fault(
        "mark outlasts its time",
        "detector.py",
        "if self.backoff.degradation_time_ms(monitor) <= now_ms - monitor.last_degraded_ms:",
        "if self.backoff.degradation_time_ms(monitor) < now_ms - monitor.last_degraded_ms:",
    ),
    Fault("return does not clear the runs", "detector.py", "        monitor.reset_consecutive()\n", ""),
    Fault(
        "return does not clear the local run",
        "host_monitor.py",
        "self.consecutive_gateway_failure = 0\n        self.consecutive_local_origin_failure = 0\n\n"
        "    def on_config_update",
        "self.consecutive_gateway_failure = 0\n\n    def on_config_update",
    ),
    Fault(
        "hosts return after judging",
        "detector.py",
        "        self._return_hosts(now_ms)\n        self._end_interval()",
        "        self._end_interval()",
    ),
    Fault(
        "interval ends after judging",
        "detector.py",
        "        self._end_interval()\n"
        "        for origin in Origin if self.splits_local_origin else (Origin.EXTERNAL,):\n"
        "            self._process_success_rate_ejections(origin, now_ms)\n",
        "        for origin in Origin if self.splits_local_origin else (Origin.EXTERNAL,):\n"
        "            self._process_success_rate_ejections(origin, now_ms)\n        self._end_interval()\n",
    ),
    Fault(
        "multipliers fall before judging",
        "detector.py",
        "        self._end_interval()\n        for",
        "        self._end_interval()\n        self.backoff.decay(self._hosts, now_ms)\n        for",
    ),
    Fault(
        "shown rate survives", "accumulator.py", "self.total = 0\n        self.success_rate = -1.0", "self.total = 0"
    ),
    Fault(
        "old interval judged with the new",
        "accumulator.py",
        "        self.success = 0\n        self.total = 0\n        self.success_rate",
        "        self.success_rate",
    ),
    # Rates
    Fault(
        "success rate allows equality", "success_rate.py", "if rate < found.threshold:", "if rate <= found.threshold:"
    ),
    Fault(
        "failure percentage excludes equality",
        "success_rate.py",
        "100.0 - rate >= threshold",
        "100.0 - rate > threshold",
    ),
    Fault(
        "sample deviation",
        "success_rate.py",
        "for rate in success_rates]) / hosts)",
        "for rate in success_rates]) / max(hosts - 1, 1))",
    ),
    Fault("factor in hundredths", "success_rate.py", "stdev_factor / 1000.0", "stdev_factor / 100.0"),
    Fault("ejected hosts averaged", "success_rate.py", "        if monitor.ejected:\n            continue\n", ""),
    Fault("volume excludes equality", "success_rate.py", "if total >= sr_volume:", "if total > sr_volume:"),
    Fault("percentage volume excludes equality", "success_rate.py", "total >= fp_volume:", "total > fp_volume:"),
    Fault(
        "shown from the larger volume",
        "success_rate.py",
        "shown_volume = min(sr_volume, fp_volume)",
        "shown_volume = max(sr_volume, fp_volume)",
    ),
    Fault(
        "minimum hosts excludes equality",
        "success_rate.py",
        "len(sr_rates) >= sr_minimum_hosts",
        "len(sr_rates) > sr_minimum_hosts",
    ),
    Fault(
        "percentage's minimum hosts ignored",
        "success_rate.py",
        "if fp_rates and len(fp_rates) >= fp_minimum_hosts:",
        "if fp_rates:",
    ),
    Fault(
        "early exit needs both minimums",
        "success_rate.py",
        "and not (by_percentage and len(hosts) >= fp_minimum_hosts)",
        "",
    ),
    Fault(
        "percentage before success rate",
        "success_rate.py",
        "    return Judgement(threshold, outliers)",
        "    return Judgement(threshold, outliers[::-1])",
    ),
    Fault("empty success rates judged", "success_rate.py", "if sr_rates and len(sr_rates)", "if len(sr_rates)"),
    # Backoff
    Fault("jitter bound excluded", "backoff.py", "% (bound_ms + 1)", "% max(bound_ms, 1)"),
    Fault(
        "no number drawn without a bound",
        "backoff.py",
        "if self._behaviour.jitter:",
        'if self._behaviour.jitter and self._settings.value("max_ejection_time_jitter_ms"):',
    ),
    Fault(
        "maximum not applied",
        "backoff.py",
        'return min(base_ms * multiplier, self._settings.value("max_ejection_time_ms"))',
        "return base_ms * multiplier",
    ),
    Fault(
        "jitter inside the maximum",
        "backoff.py",
        "return self._capped_ms(monitor.backoff) + monitor.jitter_ms",
        "return min(self._capped_ms(monitor.backoff) + monitor.jitter_ms, "
        'self._settings.value("max_ejection_time_ms"))',
    ),
    Fault(
        "multiplier stops a step early",
        "backoff.py",
        "multiplier * base_ms < max_ms + base_ms",
        "multiplier * base_ms < max_ms",
    ),
    Fault("multiplier grows for ever", "backoff.py", "if multiplier * base_ms < max_ms + base_ms else multiplier", ""),
    Fault(
        "full interval excludes equality",
        "backoff.py",
        "if monitor.backoff and not monitor.ejected:\n                returned_ms = monitor.last_unejection_ms\n"
        "                if returned_ms is not None and now_ms - returned_ms >= interval_ms:",
        "if monitor.backoff and not monitor.ejected:\n                returned_ms = monitor.last_unejection_ms\n"
        "                if returned_ms is not None and now_ms - returned_ms > interval_ms:",
    ),
    Fault(
        "multiplier falls while ejected",
        "backoff.py",
        "if monitor.backoff and not monitor.ejected:",
        "if monitor.backoff:",
    ),
    Fault(
        "mark shares the ejection's multiplier",
        "backoff.py",
        "monitor.degrade_backoff = self._raised(monitor.degrade_backoff)",
        "monitor.degrade_backoff = self._raised(monitor.backoff)",
    ),
    # Membership, health checks, degraded hosts, runtime
    Fault(
        "removal keeps the gauge",
        "detector.py",
        "        del self._hosts[monitor]\n        monitor.detach()\n        if monitor.ejected:",
        "        del self._hosts[monitor]\n        monitor.detach()\n        if False:",
    ),
    Fault(
        "failing check brings back",
        "detector.py",
        "if behaviour.active_hc_must_be_healthy and not healthy:",
        "if False:",
    ),
    Fault(
        "check ignores the failed mark",
        "detector.py",
        "if monitor.ejected and not failed_active_hc:",
        "if monitor.ejected:",
    ),
    Fault(
        "degraded without its option",
        "detector.py",
        "return self.behaviour.degraded_hosts and self.config.detect_degraded_hosts",
        "return self.behaviour.degraded_hosts",
    ),
    Fault(
        "mark extended by each answer",
        "detector.py",
        "if not self._detects_degraded or monitor.degraded:",
        "if not self._detects_degraded:",
    ),
    Fault("empty override kept", "runtime.py", "            if text:\n", "            if True:\n"),
    Fault(
        "timer armed from the configuration",
        "detector.py",
        'return self.settings.value("interval_ms")',
        "return self.config.interval_ms",
    ),
    Fault(
        "long run not cut by new settings",
        "host_monitor.py",
        "setattr(self, rule.run, threshold - 1)",
        "pass",
    ),
    # Events and reports
    Fault(
        "unejection line tells its type",
        "events.py",
        "(self.type if ejected else EjectionType.CONSECUTIVE_5XX).value",
        "self.type.value",
    ),
    Fault(
        "rates rounded in the log",
        "events.py",
        '"host_success_rate": int(found.success_rate)',
        '"host_success_rate": round(found.success_rate)',
    ),
    Fault("seconds rounded up", "events.py", "(later_ms - earlier_ms) // 1000", "-((earlier_ms - later_ms) // 1000)"),
    Fault(
        "matched error keeps its status",
        "reporting.py",
        "max(status, 500) if matched else 200",
        "status if matched else 200",
    ),
    Fault(
        "degraded wins over failure",
        "reporting.py",
        "failed = status >= 500\n",
        "failed = status >= 500 and not degraded\n",
    ),
    Fault(
        "late timeout charged", "reporting.py", "if responding and not behaviour.late_timeout_is_failure:", "if False:"
    ),
)
