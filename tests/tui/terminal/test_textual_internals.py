"""Tests that the private names of Textual that stalltop uses exist, and that it uses no others."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from types import CodeType

import pytest
from textual._compositor import Compositor
from textual.app import App
from textual.driver import Driver
from textual.drivers._writer_thread import WriterThread
from textual.drivers.linux_driver import LinuxDriver
from textual.drivers.web_driver import WebDriver
from textual.message_pump import MessagePump
from textual.screen import Screen
from textual.widget import Widget

from stalltop import cli, serving, tui, widgets

PACKAGES = (tui, widgets, serving, cli)
ROOT = Path(tui.__file__).resolve().parents[1]
TAKEN_BY = "tui/terminal/textual_internals.py"

TAKEN: dict[str, type] = {
    "_app": Driver,
    "_auto_restart": Driver,
    "_batch_count": App,
    "_clipboard": App,
    "_close_messages_no_wait": App,
    "_compositor": Screen,
    "_dirty_regions": Compositor,
    "_dirty_widgets": Screen,
    "_driver": App,
    "_fatal_error": App,
    "_file": LinuxDriver,
    "_get_terminal_size": LinuxDriver,
    "_handle_exception": App,
    "_loop": Driver,
    "_must_signal_resume": LinuxDriver,
    "_on_idle": Screen,
    "_on_meta": WebDriver,
    "_on_timer_update": Screen,
    "_queue": WriterThread,
    "_set_dirty": Widget,
    "_sigtstp_application": LinuxDriver,
    "_writer_thread": LinuxDriver,
}
"""Private names of Textual that stalltop uses, and the class that has each."""
BEHAVIOUR = {
    "BRACKETED_PASTE_END": "tui/terminal/test_keyboard.py",
    "ByteStream": "tui/serving/test_screens.py",
    "Compositor": "tui/terminal/test_patches.py",
    "CompositorUpdate": "tui/terminal/test_patches.py",
    "Parser": "tui/terminal/test_keyboard.py",
    "PatchCompositor": "tui/terminal/test_patches.py",
    "PatchedScreen": "tui/terminal/test_patches.py",
    "PipeDriver": "tui/serving/test_screens.py",
    "QuietApp": "tui/terminal/test_leaving.py",
    "StoppingDriver": "tui/terminal/test_leaving.py",
    "drawn": "tui/terminal/test_leaving.py",
    "queued_writes": "tui/main/test_slow_line.py",
    "resume_after_suspend_only": "tui/terminal/test_leaving.py",
}
"""Names that the file ``TAKEN_BY`` defines or imports for other files. For each: the test file that fails if
Textual changes the behaviour that this name relies on."""
OVERRIDDEN = {"_compositor", "_fatal_error", "_file", "_handle_exception", "_on_idle", "_sigtstp_application"}
OTHERS = {
    *("_asdict", "_exit", "_replace"),
    *(
        "_ActionsContainer",
        "_SubParsersAction",
        "_action_groups",
        "_actions",
        "_choices_actions",
        "_group_actions",
    ),
}
"""Names with an underscore that are not Textual's: documented names of named tuples and of ``os``, and names
of argparse, by which the manual and the shell completion read the options of commands."""


@pytest.mark.parametrize(("name", "owner"), TAKEN.items(), ids=TAKEN)
def test_private_names_exist_in_textual(name: str, owner: type) -> None:
    assert name in set(_names(owner))


def test_private_functions_exist_in_textual() -> None:
    assert callable(Compositor.render_strips)
    assert "_queue" in WriterThread.write.__code__.co_names, (
        "the writer thread of Textual does not use ``_queue``"
    )


def test_one_file_uses_exactly_the_listed_private_names() -> None:
    taken = {name for path, names in _taken().items() for name in names - OTHERS}
    assert taken | OVERRIDDEN == TAKEN.keys()
    assert [path for path, names in _taken().items() if names - OTHERS] == [TAKEN_BY]
    importing = {
        path.relative_to(ROOT).as_posix()
        for path in _files()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and re.match(r"textual\.(.*\.)?_", node.module or "")
    }
    assert importing == {TAKEN_BY}


def test_every_name_of_the_file_has_tests_of_what_it_does() -> None:
    tree = ast.parse((ROOT / TAKEN_BY).read_text(encoding="utf-8"))
    defined = {node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    passed_on = {
        name.asname
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for name in node.names
        if name.asname == name.name
    }
    assert defined | passed_on == BEHAVIOUR.keys()
    for file in BEHAVIOUR.values():
        assert (ROOT / "tests" / file).exists(), file


def _taken() -> dict[str, set[str]]:
    """Return, by file of stalltop, the private names that the file uses and that stalltop does not define."""
    used, ours, stored = dict[str, set[str]](), set[str](), dict[str, set[str]]()
    for path in _files():
        name_of_file = path.relative_to(ROOT).as_posix()
        here, own = used.setdefault(name_of_file, set()), stored.setdefault(name_of_file, set())
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                    ours.add(name)
                case ast.Attribute(attr=name, ctx=ast.Store()) | ast.Name(id=name, ctx=ast.Store()):
                    ours.add(name)
                    own.add(name)
                case ast.Attribute(attr=name) if _private(name):
                    here.add(name)
                case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value=str(name)), *_]):
                    if _private(name):
                        here.add(name)
    return {
        path: names - (stored[path] if path != TAKEN_BY else set()) - (ours - TAKEN.keys())
        for path, names in used.items()
    }


def test_no_private_name_of_stalltop_overrides_one_of_textual_by_chance() -> None:
    class Plain(Widget):
        """Has only the attributes that Textual gives to every class."""

    usual = set(vars(Plain)) | {"_abc_impl"}
    found = set()
    for package in PACKAGES:
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    for one in {*_below(MessagePump), *_below(Driver)}:
        if one.__module__.startswith(tuple(f"{package.__name__}." for package in PACKAGES)):
            theirs = {name for base in one.__mro__ if _of_textual(base) for name in _own(base)}
            found |= {name for name in _own(one) if _private(name) and name in theirs} - usual
    assert found == OVERRIDDEN


def _files() -> Iterator[Path]:
    for package in PACKAGES:
        for folder in package.__path__:
            yield from Path(folder).resolve().rglob("*.py")


def _private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name != "_"


def _of_textual(one: type) -> bool:
    return one.__module__.partition(".")[0] == "textual"


def _below(one: type) -> Iterator[type]:
    each: type
    for each in one.__subclasses__():
        yield each
        yield from _below(each)


def _names(one: type) -> Iterator[str]:
    """Yield the names of the methods and attributes of a class and of its base classes, and the names that
    ``__init__`` uses."""
    for base in one.__mro__:
        yield from _own(base)


def _own(one: type) -> Iterator[str]:
    yield from vars(one)
    yield from vars(one).get("__annotations__", ())
    for method in vars(one).values():
        code = getattr(method, "__code__", None)
        if method is vars(one).get("__init__") and isinstance(code, CodeType):
            yield from code.co_names
