"""Every command in README and guide does what it is there for, and their Python runs."""

import re
import subprocess
import sys

import pytest

from tests.docs.session import ROOT, Session, commands

README = (ROOT / "README.md").read_text(encoding="utf-8")
GUIDE = (ROOT / "docs" / "guide.md").read_text(encoding="utf-8")
CI = (ROOT / ".ci" / "run").read_text(encoding="utf-8")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.mark.parametrize("document", [README, GUIDE], ids=["README", "guide"])
async def test_commands_run(tmp_path, document):
    async with Session(tmp_path) as session:
        for command in commands(document):
            wanted = without_installation(command)
            if wanted:
                await session.run(wanted)


def without_installation(command: str) -> str:
    """What is left of a command that installs first; the run in CI installs, tests and lints by these very lines."""
    if ".venv/bin/pip" not in command:
        return command
    last = command.rpartition("&& ")[2]
    if last.startswith(".venv/bin/outlier demo"):
        return last.removeprefix(".venv/bin/").replace("--duration 20", "--duration 2")
    is_test = f"<!-- test command -->\n```console\n{command}\n" in README and "test command" in CI
    assert is_test or all(f".venv/bin/{tool}" in CI for tool in re.findall(r"\.venv/bin/(ruff|mypy)", command))
    return ""


@pytest.mark.parametrize("document", [README, GUIDE], ids=["README", "guide"])
def test_python_runs(document):
    for program in re.findall(r"^```python\n(.*?)^```", document, re.MULTILINE | re.DOTALL):
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=False)

        assert done.returncode == 0, done.stderr
        said = re.findall(r"print\(.*\)  # (.*)", program)
        assert set(said) <= set(done.stdout.splitlines())
