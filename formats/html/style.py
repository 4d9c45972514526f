"""The style sheet of every page. It is light or dark, as the reader's system is."""

from __future__ import annotations

from typing import Final

from stalltop.model.text.part_colours import PART_COLOURS

_BASE: Final = """
:root { color-scheme: light dark; --ground: #fafbfc; --text: #20262c; --dim: #5f6973; --line: #c9d0d6;
  --panel: #eef2f5; --head: #0b4f8a; --warn: #8f5600; --bad: #98201e }
@media (prefers-color-scheme: dark) { :root { --ground: #11161b; --text: #d7dde3; --dim: #84909c;
  --line: #39434d; --panel: #1a222a; --head: #9ed2ff; --warn: #f7c44d; --bad: #ff8066 } }
body { background: var(--ground); color: var(--text); font: 14px/1.45 system-ui, sans-serif;
  margin: 1.5rem auto; max-width: 110rem; padding: 0 1.5rem }
h1 { color: var(--head); font-size: 1.5rem; margin: 0 0 .3rem }
h2 { color: var(--head); font-size: 1.1rem; margin: 2rem 0 .5rem }
h3 { font-size: 1rem; margin: 0 }
p { margin: .2rem 0 }
.dim, footer { color: var(--dim) }
.warn { color: var(--warn) }
.bad { color: var(--bad) }
.scroll { overflow-x: auto }
table { border-collapse: collapse; font-variant-numeric: tabular-nums }
th, td { padding: .15rem .6rem; text-align: right; white-space: nowrap }
th { border-bottom: 1px solid var(--line); color: var(--dim); font-weight: normal }
td { border-bottom: 1px solid var(--panel) }
.name { text-align: left }
td.name { font-family: ui-monospace, monospace; max-width: 40rem; overflow: hidden;
  text-overflow: ellipsis }
tr.inside { color: var(--dim) }
.bar { background: var(--panel); display: flex; height: 1.1em; width: 14rem }
.bar i, .key i { font: normal .75em/1.45 ui-monospace, monospace; overflow: hidden;
  text-align: left; text-indent: .2em }
.key { color: var(--dim); margin: 0 0 .5rem }
.key span { display: inline-block; margin-right: 1rem }
.key i { display: inline-block; padding: 0 .25em; text-indent: 0 }
article { background: var(--panel); border-left: .3rem solid var(--line); margin: .8rem 0;
  padding: .6rem 1rem }
article.critical, article.high { border-color: var(--bad) }
article.medium { border-color: var(--warn) }
article.over { opacity: .85 }
.severity { display: inline-block; min-width: 5.5em; text-transform: uppercase }
.critical .severity, .high .severity { color: var(--bad) }
.medium .severity { color: var(--warn) }
.links { border-collapse: collapse; margin: .5rem 0 }
.links td { border: 0; padding: .05rem .6rem .05rem 0; vertical-align: top }
.links td.step { text-align: left; white-space: normal }
.culprit { font-weight: bold }
pre { background: var(--ground); border: 1px solid var(--line); font: 13px/1.4 ui-monospace, monospace;
  margin: .2rem 0 .5rem; overflow-x: auto; padding: .4rem .6rem; user-select: all }
ul { margin: .2rem 0; padding-left: 1.4rem }
footer { border-top: 1px solid var(--line); margin-top: 2rem; padding-top: .5rem }
@media print { body { margin: 0 } article, .bar { break-inside: avoid } .scroll { overflow: visible } }
"""

STYLE: Final = _BASE + "\n".join(
    f".{name} i, i.{name} {{ background: {colour.background}; color: {colour.letter} }}"
    for name, colour in PART_COLOURS.items()
)
"""The style sheet of every page."""
