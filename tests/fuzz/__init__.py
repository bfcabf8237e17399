"""Random bytes at both ends of the data plane: `python -m tests.fuzz`. Start reading at `target`."""
