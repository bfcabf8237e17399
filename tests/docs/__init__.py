"""Documents do what they say."""
