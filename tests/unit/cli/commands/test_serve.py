"""Tests refusals and messages of ``stalltop serve``."""

from __future__ import annotations

import argparse
import contextlib
import re
import socket
import sys
from pathlib import Path

import pytest

from stalltop.cli import main as cli
from stalltop.cli.browser.__main__ import parser
from stalltop.cli.commands.serve import announce, refuse_what_is_open, screen_flags
from stalltop.cli.listening import resolved, tls_of
from stalltop.cli.screen_options import FLAGS
from stalltop.model.errors import UsageError
from stalltop.serving.server import ServeOptions


@pytest.fixture(autouse=True)
def _no_config(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--host", "0.0.0.0"], "reachable from other hosts"),
        (["--host", "::"], "reachable from other hosts"),
        (["--host", ""], "reachable from other hosts"),
        (["--host", "192.0.2.7"], "--cert and --key"),
        (["--cert", "/no/such"], "must be given together"),
        (["--key", "/no/such"], "must be given together"),
        (["--cert", "/no/such", "--key", "/no/such"], "No such file"),
        (["--cert", __file__, "--key", __file__], "--cert"),
        (["--simulated"], "needs --demo"),
        (["--demo", "no-such-scenario"], "no-such-scenario"),
        (["--port", "65536"], "--port"),
        (["--sessions", "0"], "--sessions"),
        (["--theme", "pink"], "pink"),
    ],
)
def test_bad_usage_ends_with_exit_code_2(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = cli.main(["serve", *arguments])
    except SystemExit as exit_:
        code = int(exit_.code or 0)
    told = capsys.readouterr()
    assert code == 2
    assert said in told.err
    assert told.out == ""


@pytest.mark.parametrize("name", ["textual_serve", "aiohttp"])
def test_a_missing_package_is_reported_with_a_remedy(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    assert cli.main(["serve", "--demo", "--simulated", "--port", "0"]) == 1
    told = capsys.readouterr().err
    assert f"Python package {name}" in told
    assert "./stalltop serve" in told


def test_a_taken_port_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert cli.main(["serve", "--demo", "--simulated", "--port", str(port)]) == 1
    told = capsys.readouterr().err
    assert f"cannot listen on 127.0.0.1, port {port}" in told
    assert "--port 0" in told
    assert "token" not in told


@pytest.mark.parametrize(
    ("address", "plain", "refused"),
    [
        ("127.0.0.1", False, False),
        ("::1", False, False),
        ("0.0.0.0", False, True),
        ("10.0.0.1", False, True),
        ("0.0.0.0", True, False),
    ],
)
def test_an_open_address_needs_tls_or_consent(address: str, plain: bool, refused: bool) -> None:
    expected = pytest.raises(UsageError, match="--insecure-plain") if refused else contextlib.nullcontext()
    with expected:
        refuse_what_is_open(address, None, plain=plain)


@pytest.mark.parametrize(
    ("address", "place"),
    [
        ("127.0.0.1", "http://127.0.0.1:81/"),
        ("::1", "http://[::1]:81/"),
        ("0.0.0.0", f"http://{socket.gethostname()}:81/"),
        ("192.0.2.7", "http://192.0.2.7:81/"),
    ],
)
def test_the_address_is_printed_once_with_the_token(
    address: str, place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    announce(ServeOptions(address), 81, "secret")
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.count("secret") == 1
    assert re.search(rf"^stalltop: open {re.escape(place)}\?token=secret$", told.err, re.MULTILINE)
    assert ("ssh -L" in told.err) is (address in ("127.0.0.1", "::1"))


def test_host_names_are_resolved() -> None:
    assert resolved("127.0.0.1") == "127.0.0.1"
    assert resolved("") == "0.0.0.0"
    assert tls_of(None, None) is None


@pytest.mark.parametrize(
    ("arguments", "flags"),
    [
        ([], ["--interval=1"]),
        (["--window", "start", "--ascii"], ["--interval=1", "--window=start", "--ascii"]),
        (["--window", "60", "--theme", "light"], ["--interval=1", "--window=60", "--theme=light"]),
        (["--interval", "2.5", "--low-bandwidth"], ["--interval=2.5", "--low-bandwidth"]),
        (["--no-mouse", "--no-config", "--demo"], ["--interval=1", "--no-mouse", "--no-config", "--demo"]),
    ],
)
def test_screens_get_their_options(arguments: list[str], flags: list[str]) -> None:
    options = cli.parsed(["serve", *arguments])
    assert screen_flags(options, getattr(options, "interval", 1.0)) == flags
    read = parser().parse_args([*flags, "7"], argparse.Namespace(state=False))
    assert read.link == 7
    for name in {"config", *FLAGS} - {"interval"}:
        assert getattr(read, name, None) == getattr(options, name, None)


def test_every_option_of_a_setting_reaches_the_screens() -> None:
    given = ["--interval=2", "--window=60", "--ascii", "--theme=light", "--no-mouse", "--low-bandwidth"]
    given.append("--plain")
    options = cli.parsed(["serve", *given])
    assert set(FLAGS) <= set(vars(options)), "serve lacks an option of FLAGS: pass it on and add it here"
    assert screen_flags(options, 2.0) == [
        "--interval=2",
        "--window=60",
        "--theme=light",
        "--ascii",
        "--plain",
        "--no-mouse",
        "--low-bandwidth",
    ]
