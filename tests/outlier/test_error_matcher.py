import pytest

from outlier import ConfigError, ErrorMatcher


def response(predicate, status=200, **headers):
    found = {name.replace("_", "-"): value for name, value in headers.items()}
    return ErrorMatcher.from_dict(predicate).matches(status, found.get)


def header(**matcher):
    return {"http_response_headers_match": {"headers": [{"name": "x-a", **matcher}]}}


def test_statuses_match_exactly():
    matcher = ErrorMatcher.for_statuses([404, 503])

    assert [matcher.matches(status, {}.get) for status in (404, 503, 500, 200)] == [True, True, False, False]


@pytest.mark.parametrize(
    ("matcher", "value", "expected"),
    [
        ({"exact_match": "b"}, "b", True),
        ({"exact_match": "b"}, "bb", False),
        ({"string_match": {"exact": "B", "ignore_case": True}}, "b", True),
        ({"string_match": {"exact": "B"}}, "b", False),
        ({"string_match": {"prefix": "ab"}}, "abc", True),
        ({"string_match": {"prefix": "ab"}}, "cab", False),
        ({"string_match": {"suffix": "bc"}}, "abc", True),
        ({"string_match": {"suffix": "bc"}}, "bca", False),
        ({"string_match": {"contains": "b"}}, "abc", True),
        ({"string_match": {"contains": "x"}}, "abc", False),
        ({"string_match": {"safe_regex": {"regex": "a.c"}}}, "abc", True),
        ({"string_match": {"safe_regex": {"regex": "a.c"}}}, "abcd", False),
        ({"range_match": {"start": 5, "end": 10}}, "5", True),
        ({"range_match": {"start": 5, "end": 10}}, "9", True),
        ({"range_match": {"start": 5, "end": 10}}, "10", False),
        ({"range_match": {"start": 5, "end": 10}}, "4", False),
        ({"range_match": {"start": -5, "end": 0}}, "-1", True),
        ({"range_match": {"start": 5, "end": 10}}, "7x", False),
        ({"present_match": True}, "", True),
        ({"present_match": False}, "b", False),
        ({}, "b", True),
        ({"exact_match": "b", "invert_match": True}, "c", True),
        ({"exact_match": "b", "invert_match": True}, "b", False),
        ({"present_match": True, "invert_match": True}, "b", False),
    ],
)
def test_header_value(matcher, value, expected):
    assert response(header(**matcher), x_a=value) is expected


@pytest.mark.parametrize(
    ("matcher", "expected"),
    [
        ({"exact_match": "b"}, False),
        ({"exact_match": "b", "invert_match": True}, False),
        ({"exact_match": "b", "invert_match": True, "treat_missing_header_as_empty": True}, True),
        ({"string_match": {"exact": ""}, "treat_missing_header_as_empty": True}, True),
        ({"present_match": False}, True),
        ({"present_match": True}, False),
        ({"present_match": True, "invert_match": True}, True),
    ],
)
def test_missing_header(matcher, expected):
    assert response(header(**matcher)) is expected


def test_status_is_a_header_named_status():
    predicate = {"http_response_headers_match": {"headers": [{"name": ":status", "string_match": {"exact": "429"}}]}}

    assert [response(predicate, status) for status in (429, 503)] == [True, False]


def test_header_names_are_case_insensitive():
    assert response({"http_response_headers_match": {"headers": [{"name": "X-A", "exact_match": "1"}]}}, x_a="1")


def test_all_headers_of_one_predicate_must_match():
    predicate = {"http_response_headers_match": {"headers": [{"name": "x-a"}, {"name": "x-b"}]}}

    assert (response(predicate, x_a="1"), response(predicate, x_a="1", x_b="2")) == (False, True)


@pytest.mark.parametrize(("kind", "expected"), [("or_match", [True, True, False]), ("and_match", [True, False, False])])
def test_combinations(kind, expected):
    status_5xx = {"name": ":status", "range_match": {"start": 500, "end": 600}}
    rules = [header(exact_match="1"), {"http_response_headers_match": {"headers": [status_5xx]}}]
    predicate = {kind: {"rules": rules}}

    assert [
        response(predicate, 503, x_a="1"),
        response(predicate, 503, x_a="2"),
        response(predicate, 200, x_a="2"),
    ] == expected


def test_any_and_not():
    assert response({"any_match": True})
    assert not response({"not_match": {"any_match": True}})


@pytest.mark.parametrize(
    ("predicate", "path"),
    [
        ({}, "error_matcher"),
        ({"any_match": True, "not_match": {"any_match": True}}, "error_matcher"),
        ({"http_request_headers_match": {}}, "error_matcher.http_request_headers_match"),
        ({"or_match": {"rules": [{"any_match": True}]}}, "error_matcher.or_match.rules"),
        ({"not_match": {"x": 1}}, "error_matcher.not_match.x"),
        (
            {"http_response_headers_match": {"headers": [{}]}},
            "error_matcher.http_response_headers_match.headers[0].name",
        ),
        (header(exact_match="a", prefix_match="a"), "error_matcher.http_response_headers_match.headers[0]"),
        (header(odd_match="a"), "error_matcher.http_response_headers_match.headers[0].odd_match"),
        (header(string_match={}), "error_matcher.http_response_headers_match.headers[0].string_match"),
        (
            header(string_match={"safe_regex": {"regex": "("}}),
            "error_matcher.http_response_headers_match.headers[0].string_match.safe_regex",
        ),
    ],
)
def test_refused_predicate_names_its_path(predicate, path):
    with pytest.raises(ConfigError) as caught:
        ErrorMatcher.from_dict(predicate)

    assert caught.value.path == path
