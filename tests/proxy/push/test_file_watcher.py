import os

import pytest

from proxy.push.file_watcher import GONE_MS, SETTLE_MS, FileChanges, FileWatcher, PathMissingError


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "b.yaml").write_text("b")
    (tmp_path / "a.json").write_text("a")
    return tmp_path


@pytest.fixture
def watcher(folder):
    watcher = FileWatcher([str(folder)])
    watcher.first_look()
    return watcher


def settled(watcher, wait_ms=SETTLE_MS):
    """Look twice, the second time as soon as a change may count."""
    first = watcher.look(1000)
    assert first.changed == first.removed == ()
    return watcher.look(1000 + wait_ms)


def test_a_folder_gives_its_yaml_and_json_files_sorted_at_any_depth(folder):
    (folder / "sub").mkdir()
    for name in ("sub/c.yml", "notes.txt", ".hidden.yaml", "..data"):
        (folder / name).write_text("x")

    found = FileWatcher([str(folder)]).first_look()

    assert [os.path.relpath(path, folder) for path in found] == ["a.json", "b.yaml", "sub/c.yml"]


def test_a_file_is_taken_whatever_its_name(folder):
    (folder / "rules.txt").write_text("x")

    assert FileWatcher([str(folder / "rules.txt")]).first_look() == (str(folder / "rules.txt"),)


def test_a_missing_path_is_an_error(folder):
    with pytest.raises(PathMissingError, match="No such file or directory"):
        FileWatcher([str(folder / "nothing")]).first_look()


def test_nothing_changed(watcher):
    assert watcher.look(1000) == FileChanges()


def test_a_change_counts_once_it_is_still(watcher, folder):
    (folder / "b.yaml").write_text("changed")

    assert watcher.look(1000) == FileChanges(pending=True)
    assert watcher.look(1000 + SETTLE_MS - 1) == FileChanges(pending=True)
    assert watcher.look(1000 + SETTLE_MS) == FileChanges((str(folder / "b.yaml"),))
    assert watcher.look(2000) == FileChanges()


def test_a_file_that_is_still_being_written_is_not_read(watcher, folder):
    (folder / "b.yaml").write_text("half")
    watcher.look(1000)
    (folder / "b.yaml").write_text("half and half")

    assert watcher.look(1000 + SETTLE_MS) == FileChanges(pending=True)
    assert watcher.look(1000 + 2 * SETTLE_MS).changed == (str(folder / "b.yaml"),)


def test_an_atomic_rename_of_equal_size_and_time_is_seen(watcher, folder):
    before = (folder / "b.yaml").stat()
    (folder / "new").write_text("c")
    os.utime(folder / "new", ns=(before.st_atime_ns, before.st_mtime_ns))
    (folder / "new").rename(folder / "b.yaml")

    assert settled(watcher).changed == (str(folder / "b.yaml"),)


def test_a_new_file_is_a_change(watcher, folder):
    (folder / "c.yaml").write_text("c")

    assert settled(watcher).changed == (str(folder / "c.yaml"),)


def test_a_deleted_file_is_gone_after_a_while(watcher, folder):
    (folder / "b.yaml").unlink()

    assert watcher.look(1000) == FileChanges(pending=True)
    assert watcher.look(1000 + GONE_MS - 1) == FileChanges(pending=True)
    assert watcher.look(1000 + GONE_MS) == FileChanges((), (str(folder / "b.yaml"),))


def test_a_file_deleted_and_made_again_was_never_gone(watcher, folder):
    (folder / "b.yaml").unlink()
    watcher.look(1000)
    (folder / "b.yaml").write_text("back")

    assert watcher.look(1000 + GONE_MS) == FileChanges(pending=True)
    assert watcher.look(2000 + GONE_MS).changed == (str(folder / "b.yaml"),)


def test_kubernetes_swap_of_its_data_folder_is_seen(tmp_path):
    """A mounted ConfigMap: names are links into `..data`, itself a link that is replaced in one step."""
    for version in ("1", "2"):
        (tmp_path / f"..{version}").mkdir()
        (tmp_path / f"..{version}" / "rule.yaml").write_text(version)
    (tmp_path / "..data").symlink_to("..1")
    (tmp_path / "rule.yaml").symlink_to("..data/rule.yaml")
    watcher = FileWatcher([str(tmp_path)])
    assert watcher.first_look() == (str(tmp_path / "rule.yaml"),)

    (tmp_path / "..data_tmp").symlink_to("..2")
    (tmp_path / "..data_tmp").rename(tmp_path / "..data")

    assert settled(watcher).changed == (str(tmp_path / "rule.yaml"),)


def test_a_configured_path_that_vanishes_keeps_its_files(tmp_path):
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "a.yaml").write_text("a")
    watcher = FileWatcher([str(tmp_path / "config")])
    watcher.first_look()

    (tmp_path / "config").rename(tmp_path / "away")

    assert watcher.look(1000) == watcher.look(1000 + 10 * GONE_MS) == FileChanges()


def test_links_that_lead_back_up_end(folder):
    (folder / "loop").symlink_to(folder)

    assert len(FileWatcher([str(folder)]).first_look()) == 2


def test_dangling_links_are_left_out(folder):
    (folder / "c.yaml").symlink_to(folder / "nothing")

    assert len(FileWatcher([str(folder)]).first_look()) == 2
