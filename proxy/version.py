"""Which version of the distribution this is."""

import importlib.metadata


def version() -> str:
    """Return the version of the installed distribution; `0+source` in a source tree that is not installed."""
    try:
        return importlib.metadata.version("outlier-proxy")
    except importlib.metadata.PackageNotFoundError:
        return "0+source"
