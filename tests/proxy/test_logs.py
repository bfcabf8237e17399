"""Which log lines are written, and how they look."""

import io
import json
import logging
import warnings

import pytest
import structlog

from outlier import SimulatedTime
from proxy.logs import AREAS, LogFormat, LogLevel, RepetitionLimit, configure_logs, log_control


@pytest.fixture
def logs():
    """A function that configures logging on a text buffer; the configuration before the test comes back after it."""
    before = structlog.get_config()
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    time = SimulatedTime()

    def configure(log_format=LogFormat.JSON, log_level=LogLevel.INFO):
        stream = io.StringIO()
        return configure_logs(log_format, log_level, now_ms=time.monotonic_ms, stream=stream), stream

    yield configure
    logging.captureWarnings(False)
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.configure(**before)


def events(stream: io.StringIO) -> list[str]:
    return [json.loads(line)["event"] for line in stream.getvalue().splitlines()]


def test_json_line_holds_event_level_timestamp_and_facts(logs):
    _, stream = logs()
    structlog.get_logger().warning("outlier.host_ejected", cluster_name="a", num_ejections=2)

    line = json.loads(stream.getvalue())
    assert line.pop("timestamp").endswith("Z")
    assert line == {"event": "outlier.host_ejected", "level": "warning", "cluster_name": "a", "num_ejections": 2}


def test_console_line_is_plain_text_when_the_stream_is_no_terminal(logs):
    _, stream = logs(LogFormat.CONSOLE)
    structlog.get_logger().info("server.started", listen="127.0.0.1:1")

    assert "server.started" in stream.getvalue()
    assert "\x1b" not in stream.getvalue()


def test_line_below_the_level_is_dropped(logs):
    _, stream = logs(log_level=LogLevel.WARNING)
    log = structlog.get_logger()
    log.info("config.applied")
    log.warning("config.rejected")

    assert events(stream) == ["config.rejected"]


def test_level_of_one_area_changes_while_running(logs):
    control, stream = logs()
    control.set_level(LogLevel.DEBUG, "server")
    log = structlog.get_logger()
    log.debug("server.started")
    log.debug("config.read")

    assert events(stream) == ["server.started"]
    assert control.levels["server"] is LogLevel.DEBUG


def test_off_silences_even_critical(logs):
    control, stream = logs()
    control.set_level(LogLevel.OFF)
    structlog.get_logger().critical("server.failed")

    assert events(stream) == []
    assert set(control.levels) == set(AREAS)


def test_unknown_area_is_refused(logs):
    control, _ = logs()

    with pytest.raises(KeyError):
        control.set_level(LogLevel.DEBUG, "nobody")


def test_lines_of_libraries_and_warnings_become_events(logs):
    _, stream = logs()
    logging.getLogger("asyncio").error("it %s", "broke")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("old", DeprecationWarning, stacklevel=1)

    first, second = map(json.loads, stream.getvalue().splitlines())
    assert (first["event"], first["level"], first["logger"], first["message"]) == (
        "library.logged",
        "error",
        "asyncio",
        "it broke",
    )
    assert second["level"] == "warning"


def test_exception_is_part_of_the_json_line(logs):
    _, stream = logs()
    try:
        int("boom")
    except ValueError:
        structlog.get_logger().exception("server.failed")

    assert "ValueError: invalid literal" in json.loads(stream.getvalue())["exception"]


def test_console_traceback_does_not_show_variables(logs):
    _, stream = logs(LogFormat.CONSOLE)
    password = "hunter2"
    try:
        int(password[:0])
    except ValueError:
        structlog.get_logger().exception("server.failed")

    assert "ValueError: invalid literal" in stream.getvalue()
    assert "hunter2" not in stream.getvalue().replace('password = "hunter2"', "")


def test_repetition_is_limited_and_counted():
    time = SimulatedTime()
    limit = RepetitionLimit(time.monotonic_ms, burst=2, window_ms=1_000)

    def passes(cluster="a") -> bool:
        try:
            limit(None, "info", {"event": "x", "cluster_name": cluster})
        except structlog.DropEvent:
            return False
        return True

    assert [passes(), passes(), passes(), passes("b"), passes()] == [True, True, False, True, False]
    time.advance(999)
    assert not passes()
    time.advance(1)
    assert limit(None, "info", {"event": "x", "cluster_name": "a"}) == {
        "event": "x",
        "cluster_name": "a",
        "held_back": 3,
    }


def test_repetition_memory_is_bounded():
    limit = RepetitionLimit(SimulatedTime().monotonic_ms, max_keys=3)
    for number in range(10):
        limit(None, "info", {"event": f"x{number}"})

    assert len(limit._windows) <= 3


def test_control_in_force_is_found_again(logs):
    assert log_control() is None
    control, _ = logs()

    assert log_control() is control
