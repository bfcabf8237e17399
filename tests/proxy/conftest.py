"""Logging is of the whole process, and commands configure it; every test finds it as the one before did."""

import logging
from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """Take back what a test, or a command that it ran, has configured.

    The stream of a command's log lines is the test's own, closed with it: who wrote there later would fail.
    """
    configured, config = structlog.is_configured(), structlog.get_config()
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    if structlog.get_config() == config and structlog.is_configured() == configured:
        return
    if configured:
        structlog.configure(**config)
    else:
        structlog.reset_defaults()
    logging.captureWarnings(False)
    root.handlers[:] = [handler for handler in root.handlers if handler in handlers or _is_pytests(handler)]
    root.setLevel(level)


def _is_pytests(handler: logging.Handler) -> bool:
    return type(handler).__module__.startswith("_pytest.")
