"""The completion scripts: bash runs its own here; the others name what they must."""

import shutil
import subprocess

import pytest

from proxy.cli import COMMANDS, main

LINES = [
    ("outlier ", sorted(COMMANDS)),
    ("outlier ex", ["explain"]),
    ("outlier run --envoy-rel", ["--envoy-release"]),
    ("outlier run --envoy-release ", ["1.27", "1.40", "1.8"]),
    ("outlier run --config ", []),
    ("outlier completion ", ["--help", "--log-format", "--log-level", "-h", "bash", "fish", "zsh"]),
]


@pytest.fixture
def script(capsys):
    """A function from a shell's name to its script."""

    def script(shell):
        assert main(["completion", shell]) == 0
        return capsys.readouterr().out

    return script


@pytest.mark.parametrize(("line", "found"), LINES, ids=[line for line, _ in LINES])
def test_bash_completes(script, line, found):
    words = line.split(" ")
    quoted = " ".join(f"'{word}'" for word in words)
    program = (
        f"{script('bash')}\nCOMP_WORDS=({quoted}) COMP_CWORD={len(words) - 1}\n_outlier\n"
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )

    done = subprocess.run(["bash", "-uc", program], capture_output=True, text=True, check=True)

    assert sorted(done.stdout.split()) == found


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_command_and_its_options_are_named(script, shell):
    text = script(shell)

    assert all(command in text for command in COMMANDS)
    assert all(word in text for word in ("istio-release", "drain-time", "1.27", "uvloop"))


@pytest.mark.parametrize("shell", [shell for shell in ("bash", "zsh", "fish") if shutil.which(shell)])
def test_the_shell_can_read_it(script, shell, tmp_path):
    path = tmp_path / "completion"
    path.write_text(script(shell))

    assert subprocess.run([shell, "-n", str(path)], capture_output=True, check=False).stderr == b""
