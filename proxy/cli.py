"""The command `outlier`: which commands there are, and what their failures look like.

Each command is a module with `add_parser(subparsers)` and `run(args) -> int`. Exit codes: 0 success, 1 a finding, 2 bad
usage or unreadable input; an error is one line on stderr. A command whose
reader leaves early (`| head`) ends without a word.
"""

import argparse
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import NoReturn

from outlier import OutlierError
from proxy import (
    check_command,
    completion_command,
    demo,
    envoy_command,
    explain_command,
    run_command,
    simulate_command,
    source_command,
)
from proxy.errors import ProxyError
from proxy.logs import LogFormat, LogLevel, configure_logs
from proxy.version import version

BAD_USAGE = 2
_EXIT_CODES = "exit codes: 0 success; 1 a finding; 2 bad usage or unreadable input"
INTERRUPTED = 130  # what a shell reports for a program that SIGINT ended
BROKEN_PIPE = 128 + signal.SIGPIPE  # likewise

COMMANDS: Mapping[str, ModuleType] = {
    "run": run_command,
    "demo": demo,
    "check": check_command,
    "explain": explain_command,
    "simulate": simulate_command,
    "envoy": envoy_command,
    "source": source_command,
    "completion": completion_command,
}

_WITH_RUN_OPTIONS = (run_command, envoy_command)  # log format and level are among those


class _Parser(argparse.ArgumentParser):
    """Reports bad usage in one line."""

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        sys.stdout.flush()  # a help text that nobody reads is to fail here, not when the interpreter ends
        super().exit(status, message)

    def error(self, message: str) -> NoReturn:
        self.exit(BAD_USAGE, f"{self.prog}: {message}\n")


class _LineHelpFormatter(argparse.HelpFormatter):
    """Keeps the line breaks of descriptions and epilogs, and wraps each line."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n".join(super(_LineHelpFormatter, self)._fill_text(line, width, indent) for line in text.splitlines())


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    parser = _Parser(
        prog="outlier",
        description="A local HTTP sidecar that ejects misbehaving upstream hosts exactly as Envoy does under Istio.",
        epilog="example: outlier run --config rules/",
    )
    parser.add_argument("--version", action="version", version=f"outlier {version()}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for command in COMMANDS.values():
        command.add_parser(subparsers)
    for name, command_parser in subparsers.choices.items():
        if COMMANDS[name] not in _WITH_RUN_OPTIONS:
            _add_log_options(command_parser)
        command_parser.formatter_class = _LineHelpFormatter
        command_parser.epilog = f"{command_parser.epilog}\n{_EXIT_CODES}"
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    Args:
        argv: The arguments after the program's name; None takes those of the process.
    """
    try:
        exit_code = _run(argv)
        sys.stdout.flush()
    except BrokenPipeError:
        _write_no_more()
        return BROKEN_PIPE
    return exit_code


def _run(argv: Sequence[str] | None) -> int:
    args = make_parser().parse_args(argv)
    command = COMMANDS[args.command]
    if command is not run_command:  # it knows its log options only when it has read the bootstrap file
        log_format, level = getattr(args, "log_format", "console"), getattr(args, "log_level", "error")
        configure_logs(LogFormat(log_format), LogLevel(level))
    try:
        return int(command.run(args))
    except (OutlierError, ProxyError) as exc:
        print(exc, file=sys.stderr)  # noqa: T201 - the one line an error is
        return BAD_USAGE
    except KeyboardInterrupt:
        return INTERRUPTED


def _write_no_more() -> None:
    """Lead what is left for a reader that has gone to nowhere, or the interpreter complains of it at its end."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _add_log_options(parser: argparse.ArgumentParser) -> None:
    formats, levels = [known.value for known in LogFormat], [known.value for known in LogLevel]
    parser.add_argument(
        "--log-format", choices=formats, default=LogFormat.CONSOLE.value, help="how log lines on stderr look"
    )
    # These commands print their results; a log line is for what the results do not say.
    parser.add_argument(
        "--log-level", choices=levels, default=LogLevel.ERROR.value, help="least severe log line, default error"
    )


if __name__ == "__main__":
    sys.exit(main())
