"""Tests the config file: allowed values, messages for faults, and the saved state of the screen."""

from __future__ import annotations

import argparse
import os
import stat
import tomllib
from pathlib import Path

import pytest

from stalltop.cli import main as cli
from stalltop.cli import screen_options
from stalltop.cli.screen_options import add_screen_options, run_options
from stalltop.cli.tracing import add_state_options
from stalltop.model.errors import UsageError
from stalltop.model.rows.dimensions import DIMENSIONS
from stalltop.tui.columns.catalogue import IDS
from stalltop.tui.columns.choice import checked
from stalltop.tui.settings.file import config_path, left_path, load, load_left, parsed, save_left
from stalltop.tui.settings.settings import (
    LEFT,
    NEEDED,
    PANELS,
    SETTINGS,
    Settings,
    markdown,
    read,
    toml,
)
from stalltop.tui.views.view import PLURAL


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return tmp_path


def write(path: Path, text: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def options(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_screen_options(parser)
    add_state_options(parser)
    return parser.parse_args(arguments)


def test_written_defaults_read_back_equal() -> None:
    settings = Settings()
    text = toml({name: getattr(settings, name) for name in SETTINGS}, about=True)
    values, faults = read(tomllib.loads(text))
    assert not faults
    assert Settings(**values) == settings
    assert set(values) == set(SETTINGS)


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("interval = 2", "interval", 2.0),
        ("interval = 0.25", "interval", 0.25),
        ("window = 300", "window", 300.0),
        ('window = "start"', "window", None),
        ('theme = "mono"', "theme", "mono"),
        ("ascii = true", "ascii", True),
        ('panels = ["warnings", "host"]', "panels", ("warnings", "host")),
        ("share = 30", "share", 30),
        ('sort = "p99"', "sort", "p99"),
        ("'tour' = false", "tour", False),
        ("columns = {}", "columns", ()),
        (
            '[columns]\nprocess = ["p99"]\ncontainer = ["max", "n"]',
            "columns",
            (("container", ("max", "n")), ("process", ("p99",))),
        ),
    ],
)
def test_allowed_values_are_parsed(line: str, name: str, value: object) -> None:
    assert parsed(line.encode()) == ({name: value}, [])


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("\ninterval = 0.1", 2, "0.25 to 60"),
        ("interval = true", 1, "0.25 to 60"),
        ("interval = nan", 1, "0.25 to 60"),
        ('interval = "1"', 1, "0.25 to 60"),
        ("window = 7", 1, '1, 10, 60, 300, "start"'),
        ("window = true", 1, '"start"'),
        ('ascii = false\ntheme = "pink"', 2, '"colour-blind"'),
        ("theme = 3", 1, '"dark"'),
        ("ascii = 1", 1, "true, false"),
        ("share = 50.5", 1, "a whole number from 20 to 80"),
        ("share = 10", 1, "from 20 to 80"),
        ('panels = ["host", "host"]', 1, "a list of"),
        ('panels = ["hosts"]', 1, "a list of"),
        ('panels = ["host"]', 1, "it must contain table or warnings"),
        ("panels = []", 1, "it must contain table or warnings"),
        ("panels = [[]]", 1, "a list of"),
        ('panels = "host"', 1, "a list of"),
        ('sort = "colour"', 1, '"p99"'),
        ("columns = 1", 1, "for any of container, namespace"),
        ('share = 20\n[columns]\nmodule = ["p99"]', 2, "for any of container, namespace"),
        ("[columns]\npod = []", 1, "a list of some of beside, problem_time, calls"),
        ('[columns]\npod = ["p90"]', 1, "a list of some of beside, problem_time, calls"),
        ("[columns.pod]\na = 1", 1, "a list of some of"),
        ('theem = "dark"', 1, "did you mean theme?"),
        ("zzz = 1", 1, "there are interval, window"),
        ("# one\n[theme]\na = 1", 2, '"dark"'),
        ('interval = 1\ntheme = "dark', 2, "not valid TOML"),
        ("interval = 1\ninterval = 2", 2, "not valid TOML"),
        ("interval", 1, "not valid TOML"),
        (b"theme = 'dark'\n# \xff", 2, "UTF-8"),
        ("a = " + "[" * 100_000, None, "not valid TOML"),
        ('"\\u001b[31m" = 1', None, "no setting"),
    ],
)
def test_each_fault_is_reported_with_its_line_and_the_allowed_values(
    text: str | bytes, line: int | None, said: str
) -> None:
    values, faults = parsed(text.encode() if isinstance(text, str) else text)
    assert len(faults) == 1
    assert faults[0].line == line
    assert said in str(faults[0])
    assert str(faults[0]).isprintable()
    assert faults[0].name not in values


def test_a_faulty_file_ends_with_exit_code_2_and_a_remedy(
    capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    path = write(config_path(), 'theme = "pink"\nshare = 3\n')
    assert path == home / "config" / "stalltop" / "config.toml"
    with pytest.raises(UsageError) as told:
        run_options(options())
    assert all(word in str(told.value) for word in (str(path), "line 1", "line 2", "--no-config"))
    assert run_options(options("--no-config")).theme == "auto"
    assert cli.main(["config", "validate"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert [line.partition(", ")[0] for line in said.err.splitlines()] == [f"stalltop: {path}"] * 2
    assert cli.main(["config", "print"]) == 2
    write(path, 'theme = "light"\n')
    assert cli.main(["config", "validate"]) == 0
    assert "no errors" in capsys.readouterr().out


def test_an_unreadable_config_file_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pipe, large, folder = tmp_path / "pipe", tmp_path / "large", tmp_path / "folder"
    os.mkfifo(pipe)
    folder.mkdir()
    write(large, "#" * 100_000)
    for path in (pipe, large, folder):
        with pytest.raises(UsageError, match="cannot read"):
            load(path)
    assert cli.main(["config", "validate", str(tmp_path / "none")]) == 2
    assert "does not exist" in capsys.readouterr().err
    linked = tmp_path / "linked"
    linked.symlink_to(write(tmp_path / "elsewhere", "share = 30"))
    assert load(linked) == {"share": 30}


def test_config_path_and_print_show_the_settings_in_force(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["config", "path"]) == 0
    assert capsys.readouterr().out == f"{config_path()}\n"
    write(config_path(), "window = 60\n")
    assert cli.main(["config", "print"]) == 0
    printed = capsys.readouterr().out
    assert Settings(**read(tomllib.loads(printed))[0]) == Settings(window=60.0)
    assert all(f"\n{name} = " in f"\n{printed}" for name in SETTINGS)


def test_the_default_path_follows_xdg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative")
    monkeypatch.setenv("HOME", "/home/someone")
    assert config_path() == Path("/home/someone/.config/stalltop/config.toml")


def test_options_override_the_file_the_saved_state_and_the_defaults() -> None:
    save_left(left_path(), {"theme": "light", "share": 30, "sort": "max", "tour": False})
    write(config_path(), 'theme = "contrast"\nsort = "p99"\ninterval = 5\n')
    screen = run_options(options("--theme", "mono", "--no-mouse"))
    assert (screen.theme, screen.sort, screen.share, screen.window) == ("mono", "p99", 30, 10.0)
    assert (screen.interval, screen.mouse, screen.ascii, screen.tour) == (5.0, False, False, False)
    screen = run_options(options("--window", "start", "--interval", "2", "--ascii"))
    assert (screen.theme, screen.window, screen.interval, screen.ascii) == ("contrast", None, 2.0, True)
    screen = run_options(options("--no-config", "--no-state"))
    assert screen.keep is None
    assert Settings(**{name: getattr(screen, name) for name in SETTINGS}) == Settings()


def test_a_saved_theme_is_ignored_where_the_terminal_cannot_show_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    save_left(left_path(), {"theme": "light"})
    assert run_options(options()).theme == "light"
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("COLORTERM", raising=False)
    assert run_options(options()).theme == "auto"
    assert run_options(options("--theme", "light")).theme == "light"


def test_changes_by_keys_are_saved_unless_the_file_sets_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screen_options, "LEAVE_SECONDS", 60.0)
    write(config_path(), 'theme = "contrast"\n')
    save_left(left_path(), {"share": 30})
    screen = run_options(options("--window", "60"))
    chosen = {name: getattr(screen, name) for name in LEFT}
    assert screen.keep is not None
    screen.keep(chosen)
    assert load_left(left_path()) == ({"share": 30}, "")  # an option of this run is not saved
    screen.keep({**chosen, "theme": "light", "window": None, "panels": ("table",)})
    assert load_left(left_path()) == ({"share": 30, "window": None, "panels": ("table",)}, "")
    assert stat.S_IMODE(left_path().stat().st_mode) == 0o600
    again = run_options(options())
    assert (again.theme, again.window, again.panels) == ("contrast", None, ("table",))


def test_a_damaged_state_file_is_ignored_with_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    write(left_path(), "share = 30\nsomething_of_a_later_stalltop = 1\ninterval = 3\n")
    assert load_left(left_path()) == ({"share": 30}, "")  # an interval is never saved, so it is ignored
    for content in (b"share = 3", b"\xff\xfe", b"share", b"x" * 100_000):
        write(left_path(), content)
        screen = run_options(options())
        said = capsys.readouterr().err
        assert said.startswith("stalltop: the settings of the last run are not used: ")
        assert said.count("\n") == 1
        assert screen.share == 50
        assert len(screen.notes) == 1
    left_path().unlink()
    left_path().symlink_to(write(tmp_path / "other", "share = 30"))
    assert load_left(left_path())[0] == {}


def test_a_state_that_cannot_be_saved_is_no_error(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screen_options, "LEAVE_SECONDS", 60.0)
    write(home / "state", "a file where a folder should be")
    screen = run_options(options("--no-config"))
    assert screen.keep is not None
    screen.keep({"share": 70})


def test_chosen_columns_are_written_and_read_back() -> None:
    assert set(DIMENSIONS) == set(PLURAL)
    assert checked(IDS) == IDS
    chosen = (("process", ("max",)), ("operation", ("calls", "p99")))
    assert read(tomllib.loads(toml({"columns": chosen}))) == ({"columns": chosen}, [])


def test_the_documentation_lists_every_setting() -> None:
    lines = markdown().splitlines()
    assert [line.split("`")[1] for line in lines[2:]] == list(SETTINGS)
    assert set(NEEDED) <= set(PANELS)
    for one in SETTINGS.values():
        kind = one.metadata["kind"]
        assert kind.read(kind.plain(one.default)) == one.default
