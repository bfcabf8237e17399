"""The wheel alone, in an environment of its own: the fixtures are there, and the examples pass."""

import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples" / "testing"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def run(*command: object, cwd: Path) -> str:
    done = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with the wheel and pytest, and nothing that they do not need."""
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=ROOT)
    (wheel,) = folder.glob("*.whl")
    venv.create(folder / "env", with_pip=True)
    interpreter = folder / "env" / "bin" / "python"
    install = [interpreter, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run([*install, wheel, "pytest>=8.4"], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"dependencies cannot be installed here: {done.stderr.strip().splitlines()[-1]}")
    return interpreter


def test_the_fixtures_are_there_with_pytest_only(python, tmp_path):
    shown = run(python, "-m", "pytest", "--fixtures", "-q", cwd=tmp_path)

    for fixture in ("sidecar", "faulty_upstream", "simulated_time", "detector"):
        assert f"\n{fixture} -- " in shown


def test_the_examples_pass(python, tmp_path):
    run(python, "-m", "pip", "install", "--quiet", "fastapi", "hypothesis", cwd=tmp_path)
    for example in EXAMPLES.glob("test_*.py"):
        (tmp_path / example.name).write_bytes(example.read_bytes())

    shown = run(python, "-m", "pytest", "-q", "-W", "error", cwd=tmp_path)

    assert "11 passed" in shown
    run(python, "test_unittest.py", cwd=tmp_path)
