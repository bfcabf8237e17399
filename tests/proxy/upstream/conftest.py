"""Fixtures shared with the tests of the transport."""

from tests.proxy.http.black_hole import black_hole

__all__ = ["black_hole"]
