"""Where a sidecar's log lines go inside somebody's tests: to the standard library's logging, under the name `outlier`.

Structlog left alone prints to stdout, into whatever a test captures there. pytest shows these lines with a failing
test, and `caplog` has them.
"""

import logging

import structlog

LOGGER_NAME = "outlier"


def log_as_a_library() -> None:
    """Send structlog's lines to `logging`, unless the test's program has configured structlog itself."""
    if structlog.is_configured():
        return
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.processors.format_exc_info,
            structlog.processors.KeyValueRenderer(key_order=["event"]),
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=lambda *_args: logging.getLogger(LOGGER_NAME),
    )
