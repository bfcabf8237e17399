"""HTTP/1.1 and HTTP/2 as bytes in, events out, and back: no sockets, no clock, no policy.

`http1_request` reads what clients send, `http1_response` what upstreams send; both refuse ambiguous framing and never
repair it. `http1_encode` writes heads and bodies with Envoy's framing rules. `http2_session` is either end of an HTTP/2
connection; its heads are those of HTTP/1.1. Which headers mean something beyond framing is told by the caller's table
(`headers.HeaderTable`), so the rules of the connection manager stay out of here.
"""
