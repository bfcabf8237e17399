"""One request through the sidecar, on either side of it a seam: start at `exchange`."""
