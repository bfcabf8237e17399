"""A mapping in layers is a plain one to its readers, whatever became of its successors."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.config.layered_mapping import LayeredMapping, differing_keys

KEYS = st.integers(0, 200)
CHANGES = st.lists(st.dictionaries(KEYS, st.none() | st.integers(), max_size=40), max_size=20)


def history(first, changes):
    """Return all versions, and the same as plain dictionaries."""
    versions, expected = [LayeredMapping(first)], [first]
    for change in changes:
        versions.append(versions[-1].replaced(change))
        after = expected[-1] | change
        expected.append({key: value for key, value in after.items() if value is not None})
    return versions, expected


@given(st.dictionaries(KEYS, st.integers()), CHANGES)
def test_every_version_stays_what_it_was(first, changes):
    for version, plain in zip(*history(first, changes), strict=True):
        assert version == plain
        assert len(version) == len(list(version)) == len(plain)
        assert dict(version.items()) == plain
        assert sorted(version.values()) == sorted(plain.values())
        assert all((key in version, version.get(key)) == (key in plain, plain.get(key)) for key in range(201))


@given(st.dictionaries(KEYS, st.integers()), CHANGES, st.data())
def test_what_differs_is_found_between_any_two_versions(first, changes, data):
    versions, expected = history(first, changes)
    numbers = st.integers(0, len(versions) - 1)
    one, other = data.draw(numbers), data.draw(numbers)

    found = differing_keys(versions[one], versions[other])

    assert set(found) == {key for key in range(201) if expected[one].get(key) is not expected[other].get(key)}
    assert set(found) == set(differing_keys(expected[one], versions[other]))
    assert set(found) == set(differing_keys(versions[one], expected[other]))


def test_a_key_that_is_not_there_is_an_error():
    mapping = LayeredMapping({1: "a", 2: "b"}).replaced({1: None, 3: "c"})

    for key in (1, 4):
        with pytest.raises(KeyError, match=str(key)):
            mapping[key]


def test_removing_what_is_not_there_changes_nothing():
    mapping = LayeredMapping({1: "a"})

    assert mapping.replaced({2: None}) == mapping


def test_keys_keep_their_places():
    mapping = LayeredMapping({"c": 1, "a": 2, "b": 3}).replaced({"d": 4}).replaced({"a": 5})

    assert list(mapping) == ["c", "a", "b", "d"]


def test_successive_versions_are_compared_without_a_look_at_everything():
    mapping = LayeredMapping(dict.fromkeys(range(10_000), 0))
    for number in range(1_000):
        successor = mapping.replaced({number: 1})
        assert len(successor.candidates(mapping)) <= 102
        assert differing_keys(mapping, successor) == [number]
        mapping = successor
