"""Renders the Helm chart: the part of Go's templates that its templates use, and no more. Anything else
raises ValueError, so that the templates stay this simple.

``{{ PATH }}`` with ``| quote``, ``| default PATH``, ``toYaml PATH | nindent N``, and ``if PATH`` … ``end``;
``{{-`` removes the white space in front.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from tests.unit.repository.checkout import ROOT

CHART = ROOT / "deploy" / "helm" / "stalltop"
_TAG = re.compile(r"(\s*)\{\{(-?) (.+?) \}\}|(\{\{)")


def rendered(**changes: Any) -> list[dict[str, Any]]:
    """Returns the objects of the chart with these changes of its values."""
    values = merged(yaml.safe_load((CHART / "values.yaml").read_text()), changes)
    about = yaml.safe_load((CHART / "Chart.yaml").read_text())
    scope = {
        "Values": values,
        "Chart": {"AppVersion": about["appVersion"]},
        "Release": {"Name": "gpus", "Namespace": "monitoring", "Service": "Helm"},
    }
    texts = [template(path.read_text(), scope) for path in sorted((CHART / "templates").iterdir())]
    return [found for text in texts for found in yaml.safe_load_all(text) if found]


def merged(values: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Returns ``values`` with ``changes``, as Helm merges them. Raises KeyError for an unknown value."""
    found = dict(values)
    for name, value in changes.items():
        inner = isinstance(value, dict) and isinstance(found[name], dict) and found[name]
        found[name] = merged(found[name], value) if inner else value
    return found


def template(text: str, scope: Mapping[str, Any]) -> str:
    """Returns a template with everything filled in. Raises ValueError for what it does not know."""
    shown, parts = [True], []
    for piece in _pieces(text):
        if isinstance(piece, str):
            parts.append(piece if all(shown) else "")
            continue
        words = piece[1].split()
        if words[0] == "if" and len(words) == 2:
            shown.append(bool(_value(words[1], scope)))
        elif words == ["end"]:
            shown.pop()
        elif all(shown):
            parts.append(_filled(piece[1], scope))
    if len(shown) != 1:
        raise ValueError("an if has no end")
    return "".join(parts)


def _pieces(text: str) -> Iterator[str | tuple[str, str]]:
    at = 0
    for tag in _TAG.finditer(text):
        if tag[4]:
            raise ValueError(f"unknown: {text[tag.start() : tag.start() + 40]}")
        yield text[at : tag.start()]
        if not tag[2]:
            yield tag[1]
        yield "tag", tag[3]
        at = tag.end()
    yield text[at:]


def _filled(tag: str, scope: Mapping[str, Any]) -> str:
    if block := re.fullmatch(r"toYaml (\S+) \| nindent (\d+)", tag):
        text = yaml.safe_dump(_value(block[1], scope), default_flow_style=False)
        return "".join(f"\n{' ' * int(block[2])}{line}" for line in text.splitlines())
    if choice := re.fullmatch(r"(\S+) \| default (\S+)", tag):
        return str(_value(choice[1], scope) or _value(choice[2], scope))
    if quoted := re.fullmatch(r"(\S+) \| quote", tag):
        return '"' + str(_value(quoted[1], scope)).replace("\\", "\\\\").replace('"', '\\"') + '"'
    return str(_value(tag, scope))


def _value(path: str, scope: Mapping[str, Any]) -> Any:
    if not re.fullmatch(r"(\.\w+)+", path):
        raise ValueError(f"unknown: {path}")
    found: Any = scope
    for name in path[1:].split("."):
        found = found[name]
    return found
