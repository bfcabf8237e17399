from proxy.config.resource import Contents
from proxy.config.store import Store
from tests.proxy.config.resources import rule

OLD, NEW, OTHER = rule("a", {"host": "old"}), rule("a", {"host": "new"}), rule("b", {"host": "b"})


def contents(*resources, **fields):
    return Contents(resources={resource.key: resource for resource in resources}, **fields)


def test_a_part_is_replaced_as_a_whole():
    store = Store()
    store.put("s", "1", contents(OLD, OTHER))

    changes = store.put("s", "1", contents(NEW))

    assert sorted(changes, key=str) == sorted([(OLD, NEW), (OTHER, None)], key=str)
    assert list(store.resources.values()) == [NEW]


def test_an_equal_resource_is_no_change():
    store = Store()
    store.put("s", "1", contents(OLD))

    assert store.put("s", "1", contents(rule("a", {"host": "old"}))) == []


def test_a_rejected_resource_keeps_its_last_good_version():
    store = Store()
    store.put("s", "1", contents(OLD, OTHER))

    changes = store.put("s", "1", contents(rejected=frozenset({OLD.key})))

    assert changes == [(OTHER, None)]
    assert list(store.resources.values()) == [OLD]


def test_a_resource_that_never_was_good_is_not_there():
    store = Store()

    assert store.put("s", "1", contents(rejected=frozenset({OLD.key}))) == []
    assert store.resources == {}


def test_a_part_that_cannot_be_read_keeps_everything():
    store = Store()
    store.put("s", "1", contents(OLD))

    assert store.put("s", "1", contents(readable=False)) == []
    assert list(store.resources.values()) == [OLD]


def test_the_last_part_in_order_counts_and_removing_it_brings_the_earlier_back():
    store = Store()
    store.put("s", "1", contents(OLD))

    assert store.put("s", "2", contents(NEW)) == [(OLD, NEW)]
    assert store.put("s", "0", contents(OTHER)) == [(None, OTHER)]
    assert store.remove("s", "2") == [(NEW, OLD)]


def test_a_later_part_can_take_a_resource_away():
    store = Store()
    store.put("s", "1", contents(OLD))

    assert store.put("s", "2", contents(removed=frozenset({OLD.key}))) == [(OLD, None)]
    assert store.put("s", "3", contents(NEW)) == [(None, NEW)]


def test_removing_an_unknown_part_or_resource_is_no_change():
    store = Store()

    assert store.remove("s", "1") == []
    assert store.put("s", "1", contents(removed=frozenset({OLD.key}))) == []
