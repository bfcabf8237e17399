"""The pytest plugin `outlier`: fixtures for tests behind a sidecar.

Loaded wherever the distribution is installed, so nothing but pytest is imported until a fixture is used. It works with
any plugin that runs coroutines in asyncio, since what a test has started is closed inside the test's own coroutine;
where no plugin takes a coroutine that uses these fixtures, it is run here.
"""

import asyncio
import functools
import inspect
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from outlier import Detector
    from proxy.testing.kit import Kit
    from proxy.testing.simulated_clock import SimulatedClock

_KIT: "pytest.StashKey[Kit]" = pytest.StashKey()


@pytest.fixture
def simulated_time() -> "SimulatedClock":
    """The time of this test's detectors, those of its sidecars too: `simulated_time.advance(30_000)` sweeps on its way.

    It stands at 0 ms until it is advanced. A sidecar in a thread is advanced by its own `advance`, in that thread.
    """
    from proxy.testing.simulated_clock import SimulatedClock

    return SimulatedClock()


@pytest.fixture
def _outlier_kit(request: pytest.FixtureRequest, simulated_time: "SimulatedClock") -> "Iterator[Kit]":
    from proxy.testing.kit import Kit

    kit = Kit(simulated_time)
    request.node.stash[_KIT] = kit
    yield kit
    kit.finish()


@pytest.fixture
def sidecar(_outlier_kit: "Kit") -> Callable[..., Any]:
    """Start a sidecar on `simulated_time`, closed after the test; the arguments are those of `Sidecar`.

    In a coroutine `await sidecar(...)`; in a synchronous test `sidecar(...)` runs it in a thread.
    """
    return _outlier_kit.sidecar


@pytest.fixture
def faulty_upstream(_outlier_kit: "Kit") -> Callable[..., Any]:
    """Start an upstream that misbehaves to order, closed after the test; the arguments are those of `FaultyUpstream`.

    In a coroutine `await faulty_upstream(...)`; in a synchronous test `faulty_upstream(...)` runs it in a thread.
    """
    return _outlier_kit.faulty_upstream


@pytest.fixture
def detector(_outlier_kit: "Kit") -> "Callable[..., Detector]":
    """Make a detector on `simulated_time` whose sweeps are fired by it: `detector(hosts=["a"], consecutive_5xx=3)`."""
    return _outlier_kit.detector


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Close what the test started before its loop ends, and let a failure carry the ejection timeline."""
    kit = item.stash.get(_KIT, None)
    if kit is None:
        return (yield)
    function = getattr(item, "obj", None)
    if inspect.iscoroutinefunction(function):
        item.obj = _closing(function, kit)  # type: ignore[attr-defined]
    try:
        return (yield)
    except BaseException as exc:
        kit.annotate(exc)
        raise


@pytest.hookimpl
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine that uses these fixtures and that nobody else has taken; pytest itself would fail it."""
    if pyfuncitem.stash.get(_KIT, None) is None or not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters.keys() & pyfuncitem.funcargs.keys()
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


def _closing(function: Any, kit: "Kit") -> Any:
    @functools.wraps(function)
    async def closing(*args: Any, **kwargs: Any) -> Any:
        try:
            return await function(*args, **kwargs)
        finally:
            await kit.close()

    return closing


def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    """Explain a wrong `sidecar.ejected() == [...]` by host."""
    explain = getattr(left, "difference", None) if op == "==" and type(left).__name__ == "EjectedHosts" else None
    if explain is None or not isinstance(right, list):
        return None
    lines: list[str] = explain(right)
    return ["other hosts are ejected than expected", *lines]
