"""The way of configuration from its sources to the data plane."""
