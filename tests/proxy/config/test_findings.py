"""`outlier check` on one broken or surprising file after another: each states its findings in its first lines."""

import re
from pathlib import Path

import pytest

from proxy.config.advice import advise
from proxy.config.service_clusters import ConversionContext
from proxy.config.static_config import static_config

FILES = sorted((Path(__file__).parent / "findings").glob("*.yaml"))
_EXPECTED = re.compile(r"# (error|warning) at line (\d+): (.*)")


@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_file_has_the_findings_it_states(file):
    text = file.read_text()
    expected = {
        (match[1], int(match[2]), match[3]) for line in text.splitlines() if (match := _EXPECTED.fullmatch(line))
    }
    config = static_config({file.name: text}, ConversionContext())

    found = {(issue.severity.value, issue.line, issue.message) for issue in [*config.issues, *advise(config)]}

    assert found == expected


def test_there_are_at_least_forty_files():
    assert len(FILES) >= 40
