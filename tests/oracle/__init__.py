"""A real Envoy and the sidecar side by side: same rule, same requests, same answers.

Read in this order: `service` (what both are configured with), `envoy` and `sidecar` (the two processes), `upstream`
and `client` (raw sockets on both ends), `scenario` (what happens), `driver` (does it to one proxy), `comparison` (to
both), `verdict` (what differs).
"""
