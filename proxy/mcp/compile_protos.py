"""`python -m proxy.mcp.compile_protos [FOLDER]`: generate the Python modules of `protos/` anew.

Needs the extra `proto` (grpcio-tools for protoc, googleapis-common-protos for google/rpc/status.proto).
"""

import subprocess
import sys
from pathlib import Path

PROTOS = Path(__file__).parent / "protos"
_ROOT = PROTOS.parent.parent.parent


def compile_protos(target: Path = _ROOT) -> None:
    """Write a `_pb2.py` and a `_pb2.pyi` for each `.proto` below `target`, at its place in the package.

    Raises:
        subprocess.CalledProcessError: protoc refuses a file; it has said why on stderr.
    """
    from google.rpc import status_pb2

    assert status_pb2.__file__ is not None
    common = Path(status_pb2.__file__).parent.parent.parent
    sources = [str(path.relative_to(_ROOT)) for path in sorted(PROTOS.glob("*.proto"))]
    protoc = [sys.executable, "-m", "grpc_tools.protoc", "-I.", f"-I{common}"]
    outputs = [f"--python_out={target}", f"--pyi_out={target}"]
    subprocess.run([*protoc, *outputs, *sources], cwd=_ROOT, check=True)  # noqa: S603 - our own command


if __name__ == "__main__":
    compile_protos(*map(Path, sys.argv[1:]))
