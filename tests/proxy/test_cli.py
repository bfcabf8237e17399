"""The command line as a user meets it: help, one-line errors, exit codes."""

import re

import pytest

from proxy import run_options
from proxy.cli import COMMANDS, main, make_parser
from proxy.config.bootstrap import Bootstrap, LoopChoice, options
from proxy.run_command import choose_loop


def exit_code(*argv):
    try:
        return main(argv)
    except SystemExit as exit_:
        return exit_.code


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_every_command_has_an_example_and_the_exit_codes(command, capsys):
    assert exit_code(command, "--help") == 0
    text = capsys.readouterr().out
    assert f"example: outlier {command}" in text
    assert "exit codes: 0 success" in text
    assert "--log-format" in text
    assert "--log-level" in text


def test_help_lists_every_command(capsys):
    assert exit_code("--help") == 0
    text = capsys.readouterr().out
    assert all(re.search(rf"\n    {command}\s", text) for command in COMMANDS)


def test_version(capsys):
    assert exit_code("--version") == 0
    assert capsys.readouterr().out.startswith("outlier ")


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "outlier: the following arguments are required: COMMAND"),
        (["bogus"], "outlier: argument COMMAND: invalid choice: 'bogus'"),
        (["run", "--bogus"], "outlier: unrecognized arguments: --bogus"),
        (["run"], "--config = nothing; at least one --config or --source is needed"),
        (["run", "--config", "x", "--listen", "nowhere"], "--listen = nowhere; must be host:port, [v6]:port or unix"),
        (["run", "--bootstrap", "/nonexistent/boot.yaml"], "/nonexistent/boot.yaml: No such file or directory"),
        (["demo", "--duration", "0"], "--duration = 0.0; must be above 0 and at most 86400 seconds"),
        (["demo", "--port", "65536"], "--port = 65536; must be in 0..65535"),
        (["demo", "--port", "x"], "outlier demo: argument --port: invalid int value: 'x'"),
    ],
    ids=lambda value: " ".join(value) or "nothing" if isinstance(value, list) else "",
)
def test_bad_usage_is_one_line_and_exit_2(argv, message, capsys, monkeypatch):
    monkeypatch.setattr("proxy.cli.configure_logs", lambda *_: None)

    assert exit_code(*argv) == 2
    error = capsys.readouterr().err
    assert error.startswith(message)
    assert error.count("\n") == 1


def test_every_option_is_a_flag_that_reaches_the_bootstrap(monkeypatch):
    monkeypatch.setattr(run_options.os, "environ", {"OUTLIER_NAMESPACE": "from-environment"})
    given = {
        "config": "a",
        "source": "fs:///b",
        "source_mode": "pilot",
        "source_start_timeout": "1",
        "source_max_message_size": "4194304",
        "source_keepalive": "1",
        "source_tls_ca": "ca.pem",
        "source_tls_certificate": "cert.pem",
        "source_tls_key": "key.pem",
        "source_tls_server_name": "j",
        "debounce_after": "1",
        "debounce_max": "1",
        "debounce_endpoints": "false",
        "listen": "127.0.0.1:1",
        "idle_timeout": "1",
        "stream_idle_timeout": "1",
        "max_connection_duration": "1",
        "max_requests_per_connection": "1",
        "max_connections": "1",
        "tls_certificate": "cert.pem",
        "tls_key": "key.pem",
        "tls_client_ca": "ca.pem",
        "service": "c=127.0.0.1:2",
        "admin": "127.0.0.1:3",
        "event_log": "d",
        "access_log": "-",
        "envoy_release": "1.27",
        "istio_release": "1.1",
        "node_id": "e",
        "namespace": "f",
        "labels": "g=h",
        "locality": "i/j",
        "dns_resolver": "127.0.0.1",
        "dns_lookup_family": "all",
        "drain_time": "1",
        "loop": "asyncio",
        "log_format": "json",
        "log_level": "error",
    }
    argv = [part for option in options() for part in (option.flag, given[option.name])]

    bootstrap = run_options.bootstrap_from_args(make_parser().parse_args(["run", *argv]))

    defaults = Bootstrap()
    unchanged = [o.name for o in options() if getattr(bootstrap, o.field) == getattr(defaults, o.field)]
    assert unchanged == []
    assert bootstrap.namespace == "f"


def test_environment_names_the_bootstrap_file(monkeypatch, tmp_path):
    file = tmp_path / "boot.yaml"
    file.write_text("namespace: from-file\n")
    monkeypatch.setattr(run_options.os, "environ", {"OUTLIER_BOOTSTRAP": str(file)})

    assert run_options.bootstrap_from_args(make_parser().parse_args(["run"])).namespace == "from-file"


@pytest.mark.parametrize(("choice", "module"), [(LoopChoice.ASYNCIO, "asyncio"), (LoopChoice.UVLOOP, "uvloop")])
def test_loop_is_the_one_asked_for(choice, module):
    pytest.importorskip(module)
    loop = choose_loop(choice)()

    try:
        assert type(loop).__module__.startswith(module)
    finally:
        loop.close()
