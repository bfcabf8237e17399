"""nginx as the upstream: one process for each address, so that one can be killed, stopped and started again."""

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Self

from benchmarks.processes import free_port, require

START_DEADLINE_S = 10.0
GRPC_PATH = "/grpc"
GRPC_MESSAGE = b"\x00\x00\x00\x00\x05hello"


def parse_size(text: str) -> int:
    """Return the number of bytes that `0`, `20k` or `1m` stands for."""
    factor = {"k": 1024, "m": 1024 * 1024}.get(text[-1:].lower())
    return int(text) if factor is None else int(text[:-1]) * factor


class Nginx:
    """One upstream that serves a file `/<size>` for each size, at one loopback address or more; a context manager.

    With `http2` it speaks that, with prior knowledge, and answers gRPC calls of `GRPC_PATH` with one short message.
    """

    def __init__(self, directory: Path, sizes: list[str], *, addresses: int = 1, http2: bool = False) -> None:
        self._command = require("nginx", "the package nginx")
        self.port = free_port()
        self.addresses = [f"127.0.0.{number}:{self.port}" for number in range(1, addresses + 1)]
        self.address = self.addresses[0]
        protocol = "http2 " if http2 else ""
        listen = " ".join(f"listen {address} {protocol}backlog=4096 reuseport;" for address in self.addresses)
        self._root = directory / f"nginx-{self.port}"
        self._root.mkdir()
        for size in sizes:
            (self._root / size).write_bytes(b"x" * parse_size(size))
        grpc = ""
        if http2:
            (self._root / GRPC_PATH[1:]).write_bytes(GRPC_MESSAGE)
            # A static file answers no POST, unless the refusal's page is that file.
            grpc = (
                f"location = {GRPC_PATH} {{ error_page 405 =200 {GRPC_PATH}; types {{ }} "
                "default_type application/grpc; add_trailer grpc-status 0 always; }"
            )
        self._config = self._root / "nginx.conf"
        self._config.write_text(
            f"""
            daemon off; master_process off; pid {self._root}/pid; error_log {self._root}/error.log crit;
            events {{ worker_connections 4096; }}
            http {{
              access_log off; sendfile on; tcp_nopush on; keepalive_requests 1000000000; keepalive_timeout 1h;
              open_file_cache max=100; etag off; default_type application/octet-stream;
              client_body_temp_path {self._root}; proxy_temp_path {self._root}; fastcgi_temp_path {self._root};
              uwsgi_temp_path {self._root}; scgi_temp_path {self._root};
              server {{ {listen} root {self._root}; {grpc} }}
            }}
            """
        )
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start serving and return once the port is open."""
        self._process = subprocess.Popen([self._command, "-c", str(self._config)], stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + START_DEADLINE_S
        while not self._serves():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"nginx did not start; see {self._root}/error.log")
            time.sleep(0.01)

    def kill(self) -> None:
        """End it as a crash would: the kernel closes its connections."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            self._process.wait()
            self._process = None

    def hang(self) -> None:
        """Stop it: connections are accepted by the kernel and never answered."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on after `hang`."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGCONT)

    def _serves(self) -> bool:
        listening = f"{int.from_bytes(bytes((127, 0, 0, 1)), 'little'):08X}:{self.port:04X}"
        # Asking the kernel, because a connection of ours would be one more for the server to count.
        lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
        return any(line.split()[1] == listening and line.split()[3] == "0A" for line in lines)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
