"""Running clusters: what a configuration becomes. Start at `cluster`."""
