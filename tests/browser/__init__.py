"""The dashboard in a real browser; see `__main__`."""
