"""Log lines on stderr: how they look, which are written, and how that changes while the sidecar runs.

Events are `area.past_tense`; the area is what a level can be set for, the counterpart of Envoy's logger names. Access
log and event log are files of their own and not handled here.
"""

import enum
import logging
import sys
import time
from collections.abc import Callable, Mapping
from typing import TextIO

import attrs
import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

AREAS = ("config", "dns", "health", "library", "outlier", "server", "source", "tls")
_KEYS_OF_A_REPETITION = ("cluster_name", "upstream_url", "resource", "collection", "type", "message")


class LogFormat(enum.Enum):
    """How a line looks."""

    CONSOLE = "console"
    JSON = "json"


class LogLevel(enum.Enum):
    """The least severe line that is written; Envoy's names."""

    TRACE = "trace"
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    CRITICAL = "critical"
    OFF = "off"

    @property
    def severity(self) -> int:
        """The number the standard library gives to it."""
        return _SEVERITIES[self]


_SEVERITIES = {level: number for number, level in zip((5, 10, 20, 30, 40, 50, 60), LogLevel, strict=True)}


@attrs.define
class RepetitionLimit:
    """Lets at most `burst` like lines through in `window_ms`; the next one after that says how many were held back.

    Lines are alike when event and the facts that name a place (cluster, host, resource) are equal. At most `max_keys`
    different lines are remembered; past that, all are forgotten.
    """

    now_ms: Callable[[], int]
    burst: int = 10
    window_ms: int = 1_000
    max_keys: int = 1_000
    _windows: dict[tuple[object, ...], list[int]] = attrs.field(factory=dict, init=False)

    def __call__(self, logger: WrappedLogger, method: str, event_dict: EventDict) -> EventDict:
        """Pass the line on, or raise `structlog.DropEvent`."""
        now_ms = self.now_ms()
        key = (event_dict["event"], *(event_dict.get(name) for name in _KEYS_OF_A_REPETITION))
        window = self._windows.get(key)
        if window is None or now_ms - window[0] >= self.window_ms:
            held_back = max(0, window[1] - self.burst) if window is not None else 0
            self._open_window(key, now_ms)
            if held_back:
                event_dict["held_back"] = held_back
            return event_dict
        window[1] += 1
        if window[1] > self.burst:
            raise structlog.DropEvent
        return event_dict

    def _open_window(self, key: tuple[object, ...], now_ms: int) -> None:
        if len(self._windows) >= self.max_keys:
            self._windows.clear()
        self._windows[key] = [now_ms, 1]


class LogControl:
    """The levels in force: one for every area, changed at any time."""

    def __init__(self, level: LogLevel) -> None:
        self._default = level
        self._levels: dict[str, LogLevel] = dict.fromkeys(AREAS, level)

    @property
    def levels(self) -> Mapping[str, LogLevel]:
        """Area -> level, areas in alphabetical order."""
        return dict(sorted(self._levels.items()))

    def set_level(self, level: LogLevel, area: str | None = None) -> None:
        """Set the level of one area, or of all.

        Raises:
            KeyError: There is no such area.
        """
        if area is None:
            self._default = level
            self._levels = dict.fromkeys(AREAS, level)
        elif area in self._levels:
            self._levels[area] = level
        else:
            raise KeyError(area)

    def __call__(self, logger: WrappedLogger, method: str, event_dict: EventDict) -> EventDict:
        """Drop a line below the level of its area; a structlog processor."""
        area = str(event_dict["event"]).partition(".")[0]
        if _METHOD_SEVERITIES[method] < self._levels.get(area, self._default).severity:
            raise structlog.DropEvent
        return event_dict


_METHOD_SEVERITIES = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "warn": logging.WARNING,
    "error": logging.ERROR,
    "exception": logging.ERROR,
    "critical": logging.CRITICAL,
    "fatal": logging.CRITICAL,
}


def monotonic_ms() -> int:
    """Return a clock for the limit on repetition."""
    return time.monotonic_ns() // 1_000_000


def configure_logs(
    log_format: LogFormat, level: LogLevel, *, now_ms: Callable[[], int] = monotonic_ms, stream: TextIO | None = None
) -> LogControl:
    """Send structlog's and the standard library's lines to `stream`; return the handle on their levels.

    Args:
        log_format: Console lines are coloured when the stream is a terminal.
        level: For every area, until changed through the handle.
        now_ms: A monotonic clock, for the limit on repetition.
        stream: Where lines go; None is stderr.
    """
    stream = sys.stderr if stream is None else stream
    control = LogControl(level)
    renderers: list[Processor]
    if log_format is LogFormat.JSON:
        renderers = [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(default=str)]
    else:
        # Plain tracebacks: the pretty ones show the values of variables, which may be secret, over hundreds of lines.
        plain = structlog.dev.plain_traceback
        renderers = [structlog.dev.ConsoleRenderer(colors=stream.isatty(), exception_formatter=plain)]
    structlog.configure(
        processors=[
            control,
            RepetitionLimit(now_ms),
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *renderers,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.NOTSET),
        logger_factory=structlog.PrintLoggerFactory(stream),
        cache_logger_on_first_use=False,
    )
    logging.basicConfig(handlers=[_LibraryHandler()], level=logging.INFO, force=True)
    logging.captureWarnings(True)
    return control


def log_control() -> LogControl | None:
    """Return the handle of the configuration in force; None when somebody else has configured structlog."""
    processors = structlog.get_config()["processors"]
    return processors[0] if processors and isinstance(processors[0], LogControl) else None


class _LibraryHandler(logging.Handler):
    """Turns a line of a library that uses the standard library's logging into an event."""

    def emit(self, record: logging.LogRecord) -> None:
        method = record.levelname.lower() if record.levelname.lower() in _METHOD_SEVERITIES else "info"
        log = structlog.get_logger()
        getattr(log, method)(
            "library.logged", logger=record.name, message=record.getMessage(), exc_info=record.exc_info or None
        )
