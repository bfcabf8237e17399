"""No input, however broken, ends in anything but findings."""

import random
from pathlib import Path

import pytest

from proxy.config.advice import advise
from proxy.config.bootstrap import Bootstrap
from proxy.config.envoy_bootstrap import envoy_bootstrap
from proxy.config.explain import explain
from proxy.config.service_clusters import ConversionContext
from proxy.config.static_config import static_config

_ROOT = Path(__file__).parents[3]
TEXTS = [
    path.read_text()
    for folder in (_ROOT / "examples", Path(__file__).parent / "findings")
    for path in sorted(folder.rglob("*"))
    if path.suffix in {".yaml", ".json"}
]
# What tends to break readers: other types, extremes, YAML's specials, an alias of itself.
_NASTY = (
    "null", "{}", "[]", "[null]", "''", "~", "-1", "0", "1e999", ".nan", "0x_", "1:60", "99999999999999999999", "true",
    "*a", "&a [*a]", "!!binary x", "!!set {a}", "<<: *a", "? ", "- ", ": ", "|", ">-", "%", "@", "`", "\x00", "\ud800",
    "\u2028", "é" * 300, "[" * 200, "{a: " * 50, "10s", "-1s", "9999999h", "*", "*.example", "10.0.0.1", "::1", "unix:///x",
    "a" * 300, "2019-03-19", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59+23:59",
)  # fmt: skip


def mutate(text: str, draw: random.Random) -> str:
    """Change a text in one to three places."""
    for _ in range(draw.randint(1, 3)):
        lines = text.split("\n")
        at = draw.randrange(len(lines))
        position = draw.randrange(len(text) + 1)
        nasty = draw.choice(_NASTY)
        match draw.randrange(8):
            case 0:
                text = text[:position] + nasty + text[position:]
            case 1:
                text = text[:position] + text[position + draw.randint(1, 20) :]
            case 2:
                del lines[at]
                text = "\n".join(lines)
            case 3:
                lines.insert(draw.randrange(len(lines) + 1), lines[at])
                text = "\n".join(lines)
            case 4:
                lines[at] = " " * draw.randint(0, 8) + lines[at].strip()
                text = "\n".join(lines)
            case 5:
                key, colon, _ = lines[at].partition(":")
                lines[at] = f"{key}{colon} {nasty}"
                text = "\n".join(lines)
            case 6:
                text = text[:position] + chr(draw.randrange(0x3000)) + text[position + 1 :]
            case _:
                text = text + "\n---\n" + draw.choice(TEXTS)
        text = text or "\n"
    return text


def digest(text: str) -> None:
    """Take a text through everything that reads configuration."""
    config = static_config({"mutated.yaml": text}, ConversionContext())
    for issue in [*config.issues, *advise(config)]:
        assert str(issue)
    for cluster in explain(config):
        assert [setting.value_text for setting in cluster.settings]
    envoy_bootstrap(config.builder.snapshot, Bootstrap())


@pytest.mark.parametrize("seed", range(10))
def test_mutated_files_give_findings_only(seed):
    draw = random.Random(seed)
    for _ in range(10):
        digest(mutate(draw.choice(TEXTS), draw))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_ten_thousand_mutated_files_give_findings_only():
    """Slow: ten thousand files."""
    draw = random.Random(0)
    for _ in range(10_000):
        digest(mutate(draw.choice(TEXTS), draw))
