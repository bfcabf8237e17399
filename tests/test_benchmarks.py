"""The benchmarks' own rules: what a result is, what the tables say, and what the guard lets pass."""

import functools
import json
import platform
from pathlib import Path

import pytest

from benchmarks import guard, report, result
from benchmarks.claims import Claim, last_line, worst
from benchmarks.counting import count_of
from benchmarks.parts import PARTS, Part
from benchmarks.processes import NOT_INSTALLED

FAST = Claim(name="a pick", value=0.5, unit="us", least=0.4, most=0.6, limit=1.0, beside="Envoy 0.1")
SLOW = Claim(name="a change", value=7.0, unit="ms", limit=5.0)
MACHINE = {"processor": "EPYC", "cores": 2, "memory_gb": 8, "system": "Linux 6.1", "python": "CPython 3.11.7"}


def a_result(**fields):
    known = {"part": "engine", "command": "python -m benchmarks.engine", "date": "2026-11-30", "seconds": 5}
    return result.Result(**{**known, "machine": MACHINE, "load": 0.1, "status": result.MEASURED, **fields})


@pytest.mark.parametrize(("value", "kept"), [(0.999, True), (1.0, True), (1.001, False)])
def test_a_limit_is_kept_up_to_itself(value, kept):
    assert Claim(name="a pick", value=value, unit="us", limit=1.0).kept is kept


def test_the_worst_claim_brings_its_own_spread():
    found = worst("any pick", [FAST, Claim(name="another", value=0.7, unit="us", least=0.65, most=0.9)], "us", limit=2)

    assert (found.name, found.value, found.least, found.most, found.limit) == ("any pick", 0.7, 0.65, 0.9, 2)


def test_a_result_is_read_as_it_was_written(tmp_path):
    written = a_result(claims=(FAST, SLOW), skipped={"haproxy": "is not installed"}, figures={"rounds": [1, 2]})
    written.write(tmp_path)

    assert result.read_results(tmp_path) == [written]


def test_results_are_in_the_order_of_the_parts(tmp_path):
    for part in reversed(PARTS):
        a_result(part=part.name).write(tmp_path)

    assert [found.part for found in result.read_results(tmp_path)] == [part.name for part in PARTS]


def test_a_result_names_no_host_and_no_path():
    described = result.machine()

    assert set(described) == {"processor", "cores", "memory_gb", "system", "python"}
    assert described["system"].split()[0] == platform.system()
    assert "/" not in json.dumps(described)


@pytest.mark.parametrize(
    ("code", "output", "errors", "status", "message"),
    [
        (0, last_line({}, [FAST]), [], result.MEASURED, ""),
        (1, last_line({}, [FAST, SLOW]), [], result.MEASURED, ""),
        (1, last_line({}, [FAST]), ["sidecar: 3 requests failed"], result.FAILED, "sidecar: 3 requests failed"),
        (1, "", ["Traceback", "ValueError: no"], result.FAILED, "ValueError: no"),
        (0, "no figures", [], result.FAILED, "exit code 0"),
        (-9, "", ["round 1"], result.FAILED, "had not ended after 120 s"),
        (NOT_INSTALLED, "", ["wrk is not installed"], result.SKIPPED, "wrk is not installed"),
    ],
    ids=["kept", "not kept", "failed requests", "raised", "said nothing", "hung", "misses a tool"],
)
def test_how_a_part_has_ended(code, output, errors, status, message):
    found = result.outcome(code, output, errors, 120)

    assert (found["status"], found.get("message", "")) == (status, message)


def test_a_part_that_cannot_run_is_a_failed_result():
    found = result.run(Part(name="nothing", seconds=1, shows=""), quick=True, load=0.0, tell=lambda line: None)

    assert found.status == result.FAILED
    assert "No module named benchmarks.nothing" in found.message
    assert not found.right


@pytest.mark.parametrize(
    ("fields", "right"),
    [
        ({"claims": (FAST,)}, True),
        ({"claims": (FAST, SLOW)}, False),
        ({"status": result.FAILED}, False),
        ({"status": result.SKIPPED}, True),
    ],
    ids=["kept", "not kept", "failed", "skipped"],
)
def test_what_makes_a_run_fail(fields, right):
    assert a_result(**fields).right is right


def test_all_parts_together_take_less_than_13_minutes():
    assert sum(part.seconds for part in PARTS) < 13 * 60


def test_each_part_is_a_module_of_benchmarks():
    folder = Path(result.__file__).parent

    assert [part.name for part in PARTS if not (folder / f"{part.module}.py").exists()] == []


def test_a_row_says_claim_figure_spread_limit_and_command():
    block = report.claims_block([a_result(claims=(FAST, SLOW))])

    assert "| a pick | 0.5 us (Envoy 0.1) | 0.4-0.6 | 1, kept | `engine` |" in block
    assert "| a change | 7 ms | | 5, **not kept** | `engine` |" in block
    assert block.startswith("Measured on 30 November 2026, EPYC, 2 cores, 8 GB, Linux 6.1, CPython 3.11.7.\n")


@pytest.mark.parametrize(("value", "text"), [(1.05, "1.05"), (1.053, "1.053"), (1.06, "1.06")])
def test_a_figure_does_not_look_like_the_limit_it_exceeds(value, text):
    assert report.figure(Claim(name="a pick", value=value, unit="us", limit=1.05)) == text


def test_parts_of_several_days_say_so():
    block = report.claims_block([a_result(), a_result(part="config", date="2026-12-01")])

    assert "Measured on 30 November 2026, EPYC, 2 cores, 8 GB, Linux 6.1, CPython 3.11.7: engine." in block
    assert "Measured on 1 December 2026, EPYC, 2 cores, 8 GB, Linux 6.1, CPython 3.11.7: config." in block


@pytest.mark.parametrize(("load", "rough"), [(0.5, False), (0.51, True)])
def test_figures_of_a_busy_machine_are_called_rough(load, rough):
    assert ("the figures are rough" in report.claims_block([a_result(load=load)])) is rough


def test_a_part_that_failed_or_was_skipped_has_its_row():
    failed = a_result(status=result.FAILED, message="ValueError: no")

    assert "| engine: failed: ValueError: no | | | | `engine` |" in report.claims_block([failed])


@pytest.mark.parametrize(
    ("path", "name", "content"),
    [
        (report.README, report.CLAIMS_BLOCK, lambda: report.claims_block(result.read_results())),
        (report.PARTS_README, report.PARTS_BLOCK, report.parts_block),
    ],
    ids=["README", "benchmarks/README"],
)
def test_a_readme_has_what_the_committed_results_give(path, name, content):
    """`python -m benchmarks --readme` writes both blocks."""
    assert report.block_in(path.read_text(encoding="utf-8"), name) == content()


def test_another_block_leaves_the_text_around_it_alone():
    text = "before\n<!-- benchmarks: claims -->\nold\n<!-- end -->\nbehind\n"

    changed = report.with_block(text, "claims", "new\nlines")

    assert changed == "before\n<!-- benchmarks: claims -->\nnew\nlines\n<!-- end -->\nbehind\n"


def test_a_missing_block_is_named():
    with pytest.raises(ValueError, match="no block 'claims'"):
        report.with_block("no markers", "claims", "new")


@pytest.mark.parametrize(("value", "dearer"), [(114.9, False), (115.0, False), (115.1, True), (20.0, False)])
def test_the_guard_lets_15_percent_pass(value, dearer):
    found = guard.compare({"a pick": {"opcodes": value}}, {"a pick": {"opcodes": 100.0}})

    assert bool(found) is dearer


def test_the_guard_says_what_got_dearer_and_by_how_much():
    now = {"a pick": {"opcodes": 120.0, "calls": 7.0}, "a new one": {"calls": 1.0}}

    found = guard.compare(now, {"a pick": {"opcodes": 100.0, "calls": 7.0}})

    assert found == [
        "a pick: opcodes: 100 -> 120 (+20.0%, allowed +15%)",
        "a new one: calls: 1, and the baseline has none",
    ]


def test_accepting_keeps_the_baselines_of_other_versions(tmp_path):
    path = tmp_path / "baseline.json"
    guard.accept(path, "3.12", {"a pick": {"opcodes": 90.0}})
    guard.accept(path, "3.11", {"a pick": {"opcodes": 100.0}})
    guard.accept(path, "3.11", {"a pick": {"opcodes": 110.0}})

    assert guard.read_baseline(path) == {"3.11": {"a pick": {"opcodes": 110.0}}, "3.12": {"a pick": {"opcodes": 90.0}}}


def work(turns):
    return [len(str(number)) for number in range(turns)]


def test_counts_are_the_same_each_time():
    assert count_of(lambda: work(10), 5) == count_of(lambda: work(10), 5)


def test_a_fifth_more_work_is_a_fifth_more_opcodes():
    before, after = (count_of(lambda turns=turns: work(turns), 5) for turns in (1_000, 1_200))

    assert after["opcodes"] / before["opcodes"] == pytest.approx(1.2, abs=0.01)
    assert guard.compare({"work": after}, {"work": before}) != []


def test_the_benchmarks_own_modules_do_not_count():
    assert count_of(functools.partial(getattr, FAST, "kept"), 5) == {"opcodes": 0.0, "calls": 0.0}
