import asyncio

import pytest
from structlog.testing import capture_logs

from proxy.config.node import NodeConfig
from proxy.push.file_source import ConfigRejectedError, FileSource, read_file
from proxy.push.file_watcher import PathMissingError
from proxy.push.pipeline import ConfigPipeline
from tests.proxy.push.feed_rig import WAIT_S
from tests.proxy.push.test_pipeline import RULE, SERVICE, interval_ms


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "service.yaml").write_text(SERVICE)
    (tmp_path / "rule.yaml").write_text(RULE % "1s")
    return tmp_path


@pytest.fixture
def applied():
    return asyncio.Queue()


@pytest.fixture
def pipeline(applied):
    return ConfigPipeline(NodeConfig(), apply=applied.put_nowait)


@pytest.fixture
def source(folder, pipeline):
    return FileSource([str(folder)], pipeline)


def test_load_applies_every_file_in_one_step(source, applied):
    source.load()

    assert interval_ms(applied.get_nowait()) == 1000
    assert applied.empty()


def test_load_refuses_half_a_configuration(source, folder, applied):
    (folder / "rule.yaml").write_text(RULE % "10")
    (folder / "other.yaml").write_text("a: [")

    with pytest.raises(ConfigRejectedError) as caught:
        source.load()

    assert [issue.source for issue in caught.value.issues] == [str(folder / "other.yaml"), str(folder / "rule.yaml")]
    assert applied.empty()


def test_load_needs_the_path(pipeline, tmp_path):
    with pytest.raises(PathMissingError):
        FileSource([str(tmp_path / "nothing")], pipeline).load()


@pytest.mark.parametrize(
    ("content", "rule"), [(b"\xff\xfe\x00", "is not UTF-8"), (b"a: [", "cannot be parsed")], ids=["bytes", "broken"]
)
def test_a_file_that_is_no_text_is_unreadable(tmp_path, content, rule):
    (tmp_path / "a.yaml").write_bytes(content)

    contents = read_file(str(tmp_path / "a.yaml"))

    assert not contents.readable
    assert rule in contents.errors[0].rule


def test_a_byte_order_mark_is_no_content(tmp_path):
    (tmp_path / "a.yaml").write_bytes(b"\xef\xbb\xbf" + SERVICE.encode())

    assert len(read_file(str(tmp_path / "a.yaml")).resources) == 1


@pytest.mark.slow
async def test_a_changed_file_is_applied_while_running(source, folder, applied):
    """Slow: the watcher looks every quarter of a second."""
    source.load()
    applied.get_nowait()
    task = asyncio.create_task(source.watch())

    (folder / "rule.yaml").write_text(RULE % "2s")
    async with asyncio.timeout(WAIT_S):
        snapshot = await applied.get()
    task.cancel()

    assert interval_ms(snapshot) == 2000
    assert snapshot.changed == {"outbound|80||a.default.svc.cluster.local"}


@pytest.mark.slow
async def test_a_broken_file_is_reported_and_mended(source, folder, applied, pipeline):
    """Slow: the watcher looks every quarter of a second."""
    source.load()
    applied.get_nowait()
    task = asyncio.create_task(source.watch())

    (folder / "rule.yaml").write_text(RULE % "0s")
    with capture_logs() as logs:
        async with asyncio.timeout(WAIT_S):
            while not logs:  # noqa: ASYNC110 - the watcher announces nothing but log lines
                await asyncio.sleep(0.01)
    assert pipeline.status().sources[0].stale_since_ms is not None
    (folder / "rule.yaml").write_text(RULE % "3s")
    async with asyncio.timeout(WAIT_S):
        snapshot = await applied.get()
    task.cancel()

    assert interval_ms(snapshot) == 3000
    assert pipeline.status().sources[0].stale_since_ms is None
