"""The pytest plugin, in pytest runs of its own: each way of running coroutines, xdist, and tests that fail."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

HEAD = """
import pytest

BLOCK = {"consecutive5xxErrors": 3, "baseEjectionTime": "30s", "maxEjectionPercent": 100}
"""

ASYNC = """
async def test_ejection(sidecar, faulty_upstream, simulated_time):
    bad = await faulty_upstream(status=500)
    proxy = await sidecar(outlier_detection=BLOCK, endpoints=[bad])
    for _ in range(3):
        await proxy.get("/")
    assert proxy.ejected() == [bad]
    simulated_time.advance(30_000)
    assert proxy.ejected() == []

async def test_block(sidecar, faulty_upstream):
    async with faulty_upstream() as good, sidecar(endpoints=[good]) as proxy:
        assert (await proxy.get("/")).status == 200
"""

SYNC = """
def test_ejection(sidecar, faulty_upstream):
    bad = faulty_upstream(status=500)
    proxy = sidecar(outlier_detection=BLOCK, endpoints=[bad])
    for _ in range(3):
        proxy.get("/")
    assert proxy.ejected() == [bad]
    proxy.advance(seconds=30)
    assert proxy.ejected() == []

def test_detector(detector, simulated_time):
    found = detector(hosts=["a", "b"], consecutive_5xx=2, max_ejection_percent=50)
    host = found.hosts[0]
    host.put_http_response_code(500)
    host.put_http_response_code(500)
    assert host.ejected
    simulated_time.advance(29_999)
    assert host.ejected
    simulated_time.advance(1)
    assert not host.ejected

def test_detector_of_envoys_fields(detector):
    assert detector({"interval": "5s"}).interval_ms == 5_000
"""


def run(folder: Path, text: str, *arguments: str) -> tuple[int, str]:
    """Run pytest on one file, our plugin loaded by name so that an installed copy changes nothing."""
    (folder / "test_it.py").write_text(HEAD + text)
    (folder / "pytest.ini").write_text(
        "[pytest]\nfilterwarnings =\n  error\n  ignore::pytest.PytestDeprecationWarning\n"
    )
    command = [sys.executable, "-m", "pytest", "-p", "no:outlier", "-p", "proxy.testing.pytest_plugin"]
    done = subprocess.run(
        [*command, "-q", "-p", "no:cacheprovider", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"},
    )
    return done.returncode, done.stdout + done.stderr


pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("text", "arguments", "passed"),
    [
        (ASYNC, ["-o", "asyncio_mode=auto"], 2),
        ("pytestmark = pytest.mark.asyncio\n" + ASYNC, ["-o", "asyncio_mode=strict"], 2),
        (
            "pytestmark = pytest.mark.anyio\n@pytest.fixture\ndef anyio_backend(): return 'asyncio'\n" + ASYNC,
            ["-p", "no:asyncio"],
            2,
        ),
        ("pytestmark = pytest.mark.asyncio\n" + ASYNC, ["-p", "no:randomly"], 2),
        (ASYNC, ["-p", "no:asyncio", "-p", "no:anyio"], 2),
        (ASYNC, ["-o", "asyncio_mode=strict"], 2),
        (SYNC, ["-p", "no:asyncio", "-p", "no:anyio"], 3),
        (SYNC, ["-o", "asyncio_mode=auto", "-n", "1"], 3),
    ],
    ids=["asyncio auto", "asyncio strict", "anyio", "no:randomly", "none", "nobody's", "none, sync", "xdist"],
)
def test_fixtures_work_however_tests_are_run(tmp_path, text, arguments, passed):
    if "-n" in arguments:
        pytest.importorskip("xdist")
    code, output = run(tmp_path, text, *arguments)

    assert code == 0, output
    assert f"{passed} passed" in output


def test_a_method_of_a_class_may_use_the_fixtures(tmp_path):
    text = "class TestIt:\n" + "".join(
        f"    {line}\n" for line in ASYNC.replace("(sidecar", "(self, sidecar").splitlines()
    )
    code, output = run(tmp_path, text, "-o", "asyncio_mode=auto")

    assert code == 0, output


def test_an_asynchronous_fixture_may_start_a_sidecar_for_any_test(tmp_path):
    text = """
import pytest_asyncio

@pytest_asyncio.fixture
async def proxy(sidecar, faulty_upstream):
    return await sidecar(outlier_detection=BLOCK, endpoints=[await faulty_upstream()])

@pytest.mark.asyncio
async def test_async(proxy):
    assert (await proxy.get("/")).status == 200

def test_sync(proxy):
    assert proxy.ejected() == []
"""
    code, output = run(tmp_path, text)

    assert code == 0, output


@pytest.mark.parametrize(
    "text",
    [
        """
async def test_it(sidecar, faulty_upstream):
    bad, good = await faulty_upstream(status=500), await faulty_upstream()
    proxy = await sidecar(outlier_detection=BLOCK, endpoints=[bad])
    for _ in range(3):
        await proxy.get("/")
    assert proxy.ejected() == [good]
""",
        """
def test_it(sidecar, faulty_upstream):
    bad, good = faulty_upstream(status=500), faulty_upstream()
    proxy = sidecar(outlier_detection=BLOCK, endpoints=[bad])
    for _ in range(3):
        proxy.get("/")
    assert proxy.ejected() == [good]
""",
    ],
    ids=["async", "sync"],
)
@pytest.mark.parametrize("arguments", [[], ["-n", "1"]], ids=["one process", "xdist"])
def test_a_failing_test_prints_reasons_and_timeline(tmp_path, text, arguments):
    if arguments:
        pytest.importorskip("xdist")
    code, output = run(tmp_path, text, "-o", "asyncio_mode=auto", *arguments)

    assert code == 1, output
    assert "other hosts are ejected than expected" in output
    assert "should not be ejected:" in output
    assert (
        "E   ejection timeline:" in " ".join(output.replace("\n", " \n").split(" " * 4))
        or "ejection timeline" in output
    )
    assert "0.000 s" in output


def test_a_detectors_history_is_printed_too(tmp_path):
    text = """
def test_it(detector):
    found = detector(hosts=["a"], consecutive_5xx=1, max_ejection_percent=100)
    found.hosts[0].put_http_response_code(500)
    assert not found.hosts[0].ejected
"""
    code, output = run(tmp_path, text)

    assert code == 1, output
    assert "0.000 s  a  ejected  CONSECUTIVE_5XX (1 in a row, threshold 1), for 30 s" in output


def test_a_sidecar_in_a_thread_is_not_advanced_from_outside(tmp_path):
    text = """
def test_it(sidecar, simulated_time):
    sidecar(outlier_detection=BLOCK, endpoints=["127.0.0.1:1"])
    with pytest.raises(RuntimeError, match="use its advance"):
        simulated_time.advance(1)
"""
    code, output = run(tmp_path, text)

    assert code == 0, output


def test_loading_the_plugin_imports_nothing_of_the_sidecar():
    program = (
        "import sys, proxy.testing.pytest_plugin; "
        "print({'aiohttp', 'structlog', 'attrs', 'hypothesis', 'pytest_asyncio'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "set()"
