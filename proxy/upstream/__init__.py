"""Upstream hosts: what is known of them, how they are reached and checked. Start at `host`."""
