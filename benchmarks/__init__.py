"""One module for each claim of the README; each runs with `python -m benchmarks.<name>`."""
