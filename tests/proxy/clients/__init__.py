"""The clients that people use, each with its habits, through the sidecar: start at `habits`."""
