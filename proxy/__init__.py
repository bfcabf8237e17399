"""The sidecar: data plane, load balancing, configuration feed, admin, command line, testing kit.

Start reading at `server.py`, which puts the parts together; `docs/design.md` has the floors and a tour.
"""
