"""The pipeline with debouncing, in virtual time."""

import asyncio

import pytest

from proxy.config.node import NodeConfig
from proxy.config.resource import read_resources
from proxy.push.debounce import DebounceSettings
from proxy.push.pipeline import ConfigPipeline
from tests.proxy.push.feed_rig import rule, service
from tests.virtual_time import run_in_virtual_time


class Debounced:
    """A pipeline on the running loop's clock; `applied` are the times in milliseconds, and the changed clusters."""

    def __init__(self, **settings):
        self.applied = []
        self.pipeline = ConfigPipeline(NodeConfig(), apply=self._apply, monotonic_ms=self.now_ms)
        self.pipeline.debounce(DebounceSettings(**settings))

    def now_ms(self):
        return round(asyncio.get_running_loop().time() * 1000)

    def _apply(self, snapshot):
        self.applied.append((self.now_ms(), len(snapshot.changed)))

    def put(self, arrived_ms=None, **texts):
        found = {name: read_resources(text, name) for name, text in texts.items()}
        self.pipeline.update("test", found, (), arrived_ms)


def test_changes_in_quick_succession_are_applied_together():
    async def main():
        debounced = Debounced(after_ms=100, max_ms=10_000)
        debounced.put(a=service("a"))
        await asyncio.sleep(0.06)
        debounced.put(b=service("b"))
        await debounced.pipeline.wait_applied()
        return debounced.applied

    assert run_in_virtual_time(main()) == [(160, 2)]


def test_changes_that_never_pause_are_applied_all_the_same():
    async def main():
        debounced = Debounced(after_ms=100, max_ms=300)
        for number in range(10):
            debounced.put(a=service("a", f"10.0.0.{number}"))
            await asyncio.sleep(0.05)
        await debounced.pipeline.wait_applied()
        return debounced.applied

    times = [time for time, _ in run_in_virtual_time(main())]
    assert times[0] <= 300 + 100
    assert len(times) == 2


def test_a_change_that_is_taken_back_in_time_is_never_applied():
    async def main():
        debounced = Debounced()
        debounced.put(a=service("a"))
        await debounced.pipeline.wait_applied()
        debounced.put(rule=rule("a", 30))
        debounced.pipeline.update("test", {}, ["rule"])
        await debounced.pipeline.wait_applied()
        return debounced.applied

    assert len(run_in_virtual_time(main())) == 1


def test_changes_of_endpoints_only_need_not_wait():
    async def main():
        debounced = Debounced(endpoints=False)
        debounced.put(a=service("a"))
        await debounced.pipeline.wait_applied()
        debounced.put(a=service("a", "10.0.0.2"))
        debounced.put(rule=rule("a", 30))
        await debounced.pipeline.wait_applied()
        return debounced.applied

    assert [time for time, _ in run_in_virtual_time(main())] == [100, 100, 200]


def test_many_changes_are_built_in_slices_and_applied_at_once():
    async def main():
        debounced = Debounced()
        turns = 0
        debounced.put(**{f"s{number}": service(f"s{number}") for number in range(200)})
        while not debounced.applied:
            turns += 1
            await asyncio.sleep(0.001)
        return debounced.applied, turns

    applied, turns = run_in_virtual_time(main())
    assert [count for _, count in applied] == [200]
    assert turns > 100


def test_convergence_runs_from_the_arrival_of_the_first_event():
    async def main():
        debounced = Debounced()
        await asyncio.sleep(1)
        debounced.put(arrived_ms=980, a=service("a"))
        await asyncio.sleep(0.05)
        debounced.put(arrived_ms=1_045, b=service("b"))
        await debounced.pipeline.wait_applied()
        metrics = debounced.pipeline.metrics
        return [sorted(metrics.convergence(stage).buckets) for stage in ("decode", "debounce", "total")]

    assert run_in_virtual_time(main()) == [[5, 20], [170], [170]]


def test_nothing_is_applied_after_the_end():
    async def main():
        debounced = Debounced()
        debounced.put(a=service("a"))
        await debounced.pipeline.close()
        await asyncio.sleep(1)
        return debounced.applied

    assert run_in_virtual_time(main()) == []


@pytest.mark.parametrize("name", ["pilot_debounce_time", "outlier_config_convergence_seconds", "pilot_inbound_updates"])
def test_metrics_have_istios_names(name):
    async def main():
        debounced = Debounced()
        debounced.put(a=service("a"))
        await debounced.pipeline.wait_applied()
        return {metric.tag_extracted_name for metric in debounced.pipeline.metrics.metrics()}

    assert name in run_in_virtual_time(main())
