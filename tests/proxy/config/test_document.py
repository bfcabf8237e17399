import pytest

from proxy.config.document import DocumentError, locate, read_documents, repeated_keys, value_at
from proxy.config.issue import ABSENT


def values(text):
    return [document.value for document in read_documents(text)]


def test_documents_of_one_text_are_told_apart_and_empty_ones_left_out():
    assert values("a: 1\n---\n---\n# nothing\n---\nb: 2\n") == [{"a": 1}, {"b": 2}]


def test_json_texts_may_follow_one_another():
    assert values('{"a": 1}\n{"b": 2}\n') == [{"a": 1}, {"b": 2}]


def test_flow_style_that_is_no_json_is_yaml():
    assert values("{a: 1}") == [{"a": 1}]


def test_dates_stay_strings():
    assert values("created: 2019-03-19T14:00:00Z") == [{"created": "2019-03-19T14:00:00Z"}]


@pytest.mark.parametrize("text", ["a: !!python/object:os.system x", "a: !!timestamp 2019-03-19", "a: !custom x"])
def test_other_tags_than_the_core_ones_are_refused(text):
    with pytest.raises(DocumentError):
        read_documents(text)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param("a: 1\nb: [c\n", 3, id="flow not closed"),
        pytest.param("a: 1\n\tb: 2\n", 2, id="tab as indentation"),
        pytest.param("a: 1\n b: 2\n", 2, id="nested under a scalar"),
        pytest.param('{"a": 1,,}', 1, id="broken JSON"),
    ],
)
def test_a_fault_names_its_line(text, line):
    with pytest.raises(DocumentError) as caught:
        read_documents(text)

    assert caught.value.line == line


@pytest.mark.parametrize(
    "text", ["0b_", "a: !!int x", "[" * 5000, "\x00", "a: \ud800", "? [a]\n: b", "*x", "&a [*a"], ids=repr
)
def test_whatever_the_loader_stumbles_over_is_one_error(text):
    with pytest.raises(DocumentError):
        read_documents(text)


@pytest.mark.parametrize(
    ("path", "line"),
    [((), 3), (("spec",), 5), (("spec", "ports", 1, "name"), 9), (("spec", "missing"), 5), (("spec", "ports", 7), 6)],
)
def test_a_path_leads_to_its_line_or_the_nearest_above(path, line):
    text = "# head\n---\nkind: X\n\nspec:\n  ports:\n  - name: a\n  -\n    name: b\n---\nkind: Y\n"

    assert locate(read_documents(text)[0], path) == line


def test_lines_of_later_documents_count_from_the_top_of_the_file():
    text = "a: 1\n---\n  b: é\n  c:\n    d: 2\n"

    assert locate(read_documents(text)[1], ("c", "d")) == 5


def test_lines_of_json_with_tabs_are_found():
    text = '{"a": 1}\n\n{\n\t"b": {\n\t\t"c": 2\n\t}\n}\n'

    assert locate(read_documents(text)[1], ("b", "c")) == 5


def test_a_proto_name_is_found_under_its_json_name():
    document = read_documents("outlier_detection:\n  base_ejection_time: 1s\n")[0]

    assert locate(document, ("outlierDetection", "baseEjectionTime")) == 2
    assert value_at(document, ("outlierDetection", "baseEjectionTime")) == "1s"


@pytest.mark.parametrize("path", [("b",), ("a", 3), ("a", "x"), ("a", 0, "x")])
def test_a_value_that_is_not_there_is_absent(path):
    assert value_at(read_documents("a: [1]")[0], path) is ABSENT


def test_of_a_key_that_stands_twice_the_last_one_counts():
    (document,) = read_documents("a: {b: 1}\na:\n  b: 2\n")

    assert (value_at(document, ("a", "b")), locate(document, ("a", "b"))) == (2, 3)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a: 1\nb: {c: 1}\n", []),
        ("a: 1\nb: 2\na: 3\n", [(("a",), (1, 3))]),
        ("b: [{c: 1}, {c: 1,\n c: 2}]\n", [(("b", 1, "c"), (1, 2))]),
        ("max_ejection_percent: 1\nmaxEjectionPercent: 2\n", [(("maxEjectionPercent",), (1, 2))]),
        ('{"a": 1,\n"a": 2}', [(("a",), (1, 2))]),
        ("a: &x {c: 1, c: 2}\nb: *x\n", [(("b", "c"), (1, 1))]),
    ],
    ids=["none", "top", "in a list", "both spellings", "json", "by an alias"],
)
def test_keys_that_stand_twice_are_found(text, found):
    (document,) = read_documents(text)

    assert list(repeated_keys(document, ())) == found
