"""Istio resources in, frozen settings for the data plane out. Pure: no I/O, no clock.

Start at `resource` (what is read), `store` (what is in force), `snapshot_builder` (what comes out).
"""
