"""Tests that new files belong to the user who called sudo, and that no other file gets another owner."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

import pytest

from stalltop.files import complete, new_folder, owner, private_file
from stalltop.files.places import state_directory
from stalltop.formats import hlog
from stalltop.recordings.write.hold import Hold
from stalltop.tui.settings.file import config_path, left_path, save_left

NOBODY = 65534
USER = 4242
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to other users")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder of the user ``USER``, who called sudo."""
    monkeypatch.setenv("SUDO_UID", str(USER))
    monkeypatch.setenv("SUDO_GID", str(NOBODY))
    folder = tmp_path / "home"
    folder.mkdir()
    os.chown(folder, USER, NOBODY)
    return folder


def owners(*paths: Path) -> set[tuple[int, int]]:
    return {(path.lstat().st_uid, path.lstat().st_gid) for path in paths}


@needs_root
def test_every_kind_of_file_belongs_to_the_user_who_called_sudo(home: Path) -> None:
    saved = complete.write(b"1", home / "a" / "b" / "saved.txt")
    complete.write(b"2", saved, overwrite=True)
    settings = home / "state" / "screen.toml"
    save_left(settings, {"share": 30})
    recording = Hold(home / "recorded.stalltop")
    recording.release()
    with new_folder.filled(home / "logs") as folder, open(folder / "x", "x", opener=hlog._private) as file:
        file.write("1")
    made = [*home.rglob("*")]
    assert len(made) == 9, made  # includes the lock file of the settings
    assert owners(*made) == {(USER, NOBODY)}
    assert {stat.S_IMODE(path.lstat().st_mode) for path in made} == {0o600, 0o700}


@needs_root
@pytest.mark.parametrize(("mode", "given"), [(0o755, False), (0o700, False), (0o1777, True), (0o775, True)])
def test_a_file_is_given_only_in_a_folder_in_which_the_user_may_create_files(
    home: Path, mode: int, given: bool
) -> None:
    folder = home.parent / "of-root"
    folder.mkdir()
    os.chown(folder, 0, NOBODY if mode == 0o775 else 0)
    folder.chmod(mode)
    expected = {(USER, NOBODY) if given else (0, 0)}
    assert owners(complete.write(b"1", folder / "sub" / "x"), folder / "sub") == expected
    assert owners(complete.write(b"1", folder / "y")) == expected


@needs_root
def test_files_that_existed_keep_their_owner_and_links_are_not_followed(home: Path) -> None:
    kept = home / "kept"
    kept.write_bytes(b"")
    os.close(owner.create(kept, os.O_RDWR))
    assert owners(kept) == {(0, 0)}
    link = home / "link"
    link.symlink_to(kept)
    with pytest.raises(OSError, match="symbolic"):
        owner.create(link, os.O_RDWR)
    with pytest.raises(FileExistsError):
        owner.create(link, os.O_WRONLY | os.O_EXCL)
    assert owners(kept) == {(0, 0)}


@needs_root
def test_a_folder_that_was_exchanged_is_not_given_away(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = home.parent / "other"
    (other / "content").mkdir(parents=True)
    really = os.mkdir

    def exchanged(path: str, mode: int, *, dir_fd: int) -> None:
        really(path, mode, dir_fd=dir_fd)
        (home / path).rmdir()
        other.rename(home / path)

    monkeypatch.setattr(os, "mkdir", exchanged)
    owner.make_folder(home / "new")
    assert owners(home / "new") == {(0, 0)}


@needs_root
@pytest.mark.parametrize(
    ("uid", "gid"),
    [("", "1"), ("0", "0"), ("-1", "1"), ("4294967295", "1"), ("x", "1"), ("²", "1"), ("5", "")],
)
def test_without_valid_numbers_nobody_called_sudo(
    uid: str, gid: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUDO_UID", uid)
    monkeypatch.setenv("SUDO_GID", gid)
    assert owner.caller() is None


def test_another_user_than_root_gives_nothing_away(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1)
    assert owner.caller() is None
    assert owner.home() == os.path.expanduser("~")


@needs_root
def test_settings_and_saved_files_are_those_of_the_user_who_called_sudo(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)

    class StatEntry:
        pw_dir = str(home)

    monkeypatch.setattr("pwd.getpwuid", lambda uid: StatEntry)
    assert state_directory() == home / ".local/state/stalltop"
    assert config_path() == home / ".config/stalltop/config.toml"
    save_left(left_path(), {"share": 30})
    assert owners(*home.rglob("*")) == {(USER, NOBODY)}

    def unknown(uid: int) -> None:
        raise KeyError(uid)

    monkeypatch.setattr("pwd.getpwuid", unknown)
    assert owner.home() == os.path.expanduser("~")


def test_a_missing_folder_is_made_once(tmp_path: Path) -> None:
    owner.make_folders(tmp_path / "a" / "b")
    owner.make_folders(tmp_path / "a" / "b")
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        owner.make_folders(tmp_path / "file")
    with contextlib.suppress(OSError):
        private_file.replace_file(tmp_path / "c" / "x", b"1")
    assert (tmp_path / "c" / "x").read_bytes() == b"1"
