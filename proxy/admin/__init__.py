"""The admin endpoints: Envoy's paths, formats and field names over aiohttp, and what explains the sidecar beyond them.

Start reading at `application.py`, which lists the endpoints.
"""
