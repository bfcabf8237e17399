"""State, options, listeners, runtime, log levels, and the actions that POST asks for."""

import io
import logging

import pytest
import structlog

from proxy.admin.context import ServerState
from proxy.logs import LogFormat, LogLevel, configure_logs, log_control


@pytest.mark.parametrize(
    ("state", "status"), [(ServerState.LIVE, 200), (ServerState.DRAINING, 503), (ServerState.PRE_INITIALIZING, 503)]
)
async def test_ready_is_200_only_when_live(sidecar, admin, state, status):
    sidecar.state = state

    response = await admin.get("/ready")

    assert (response.status, await response.text()) == (status, f"{state.value}\n")


async def test_server_info_has_envoys_fields(sidecar, admin):
    sidecar.time.advance(61_999)

    info = await (await admin.get("/server_info")).json()

    assert info["state"] == "LIVE"
    assert info["version"] == "outlier-proxy/1.2.3"
    assert info["uptime_current_epoch"] == info["uptime_all_epochs"] == "61s"
    assert info["command_line_options"]["drain_time"] == "5s"
    assert info["node"]["id"] == "n1"
    assert info["node"]["metadata"] == {"NAMESPACE": "default", "LABELS": {"app": "web"}}
    assert info["node"]["user_agent_build_version"]["version"] == {"major_number": 1, "minor_number": 2, "patch": 3}


async def test_listeners_in_both_forms(admin):
    assert await (await admin.get("/listeners")).text() == (
        "outbound::127.0.0.1:15001\nreviews:9080::/run/reviews.sock\n"
    )
    assert await (await admin.get("/listeners?format=json")).json() == {
        "listener_statuses": [
            {
                "name": "outbound",
                "local_address": {"socket_address": {"address": "127.0.0.1", "port_value": 15_001}},
            },
            {"name": "reviews:9080", "local_address": {"pipe": {"path": "/run/reviews.sock"}}},
        ]
    }


async def test_runtime_override_is_set_shown_and_removed(sidecar, admin):
    response = await admin.post("/runtime_modify?outlier_detection.consecutive_5xx=7&foo=bar")
    assert (response.status, await response.text()) == (200, "OK\n")
    assert sidecar.runtime.integer("outlier_detection.consecutive_5xx", 5) == 7
    await admin.post("/runtime_modify", data={"foo": ""})

    assert await (await admin.get("/runtime")).text() == (
        "{\n"
        ' "entries": {\n'
        '  "outlier_detection.consecutive_5xx": {\n'
        '   "layer_values": [\n'
        '    "7"\n'
        "   ],\n"
        '   "final_value": "7"\n'
        "  }\n"
        " },\n"
        ' "layers": [\n'
        '  "admin"\n'
        " ]\n"
        "}\n"
    )


async def test_runtime_modify_without_keys_explains_itself(admin):
    response = await admin.post("/runtime_modify")

    assert response.status == 400
    assert (await response.text()).startswith("usage: /runtime_modify?key1=value1")


@pytest.mark.parametrize(
    ("path", "action"),
    [
        ("/quitquitquit", "quit"),
        ("/drain_listeners", "drain_listeners False"),
        ("/drain_listeners?graceful", "drain_listeners True"),
        ("/healthcheck/fail", "fail_health True"),
        ("/healthcheck/ok", "fail_health False"),
        ("/reset_counters", "reset_counters"),
        ("/reopen_logs", "reopen_logs"),
    ],
)
async def test_post_does_the_action_and_get_does_not(sidecar, admin, path, action):
    refused = await admin.get(path)
    assert (refused.status, await refused.text()) == (405, "Method GET not allowed, POST required.")
    assert sidecar.done == []
    response = await admin.post(path)

    assert (response.status, await response.text()) == (200, "OK\n")
    assert sidecar.done == [action]


class TestLogging:
    """`/logging` over a real configuration of structlog, undone afterwards."""

    @pytest.fixture(autouse=True)
    def configured(self):
        before = structlog.get_config()
        root = logging.getLogger()
        handlers, level = root.handlers[:], root.level
        configure_logs(LogFormat.JSON, LogLevel.INFO, stream=io.StringIO())
        yield
        logging.captureWarnings(False)
        root.handlers[:] = handlers
        root.setLevel(level)
        structlog.configure(**before)

    async def test_shows_every_area(self, admin):
        text = await (await admin.post("/logging")).text()

        assert text.startswith("active loggers:\n  config: info\n")
        assert "  outlier: info\n" in text

    @pytest.mark.parametrize(
        ("query", "levels"),
        [
            ("level=error", {"server": LogLevel.ERROR, "config": LogLevel.ERROR}),
            ("server=debug", {"server": LogLevel.DEBUG, "config": LogLevel.INFO}),
            ("paths=server:trace,config:off", {"server": LogLevel.TRACE, "config": LogLevel.OFF}),
        ],
    )
    async def test_changes_levels(self, admin, query, levels):
        response = await admin.post(f"/logging?{query}")

        assert response.status == 200
        assert {area: log_control().levels[area] for area in levels} == levels

    @pytest.mark.parametrize(
        ("query", "error"),
        [
            ("level=bad", "error: unknown logger level\n"),
            ("nobody=info", "error: unknown logger name\n"),
            ("paths=router", "error: unknown logger level\n"),
        ],
    )
    async def test_unknown_name_or_level_is_refused_with_usage(self, admin, query, error):
        response = await admin.post(f"/logging?{query}")

        assert response.status == 400
        assert (await response.text()).startswith(error + "\nusage: /logging?<name>=<level>")


async def test_logging_of_an_embedding_program_is_left_alone(admin):
    assert (await admin.post("/logging?level=off")).status == 503
