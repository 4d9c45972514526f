"""The style sheet of reports. It extends the style sheet of all pages by tiles, charts and bars over time."""

from __future__ import annotations

from typing import Final

from stalltop.formats.html.style import STYLE

REPORT_STYLE: Final = (
    STYLE
    + """
:root { --p50: #0f6cbd; --p95: #7a5bc4; --p99: #b35c00; --max: #9aa4ad; --area: #0f6cbd }
@media (prefers-color-scheme: dark) { :root { --p50: #5fb4f5; --p95: #b9a0ea; --p99: #f0b64a;
  --max: #6a7680; --area: #5fb4f5 } }
.tiles { display: flex; flex-wrap: wrap; gap: .6rem; margin: 1rem 0 }
.tiles div { background: var(--panel); min-width: 6rem; padding: .5rem .9rem }
.tiles b { display: block; font-size: 1.35rem; font-variant-numeric: tabular-nums; font-weight: 600 }
.tiles span { color: var(--dim) }
.cards { display: grid; gap: .8rem; grid-template-columns: repeat(auto-fill, minmax(min(29rem, 100%), 1fr)) }
figure { background: var(--panel); break-inside: avoid; margin: 0; padding: .6rem .8rem }
figcaption { display: flex; flex-wrap: wrap; gap: 0 .8rem; margin-bottom: .2rem }
figcaption > b { flex: 1 1 8rem; overflow: hidden; text-overflow: ellipsis; white-space: nowrap }
figcaption > * { color: var(--dim); margin: 0 } figcaption > b { color: inherit }
figcaption > p { flex-basis: 100% }
.legend { white-space: nowrap }
.legend span { margin-left: .8rem }
.legend i { border-top: 2px solid; display: inline-block; margin-right: .3rem; vertical-align: middle;
  width: 1rem }
.legend i.p50 { color: var(--p50) } .legend i.p95 { color: var(--p95) } .legend i.p99 { color: var(--p99) }
.legend i.max { color: var(--max) }
.legend i.dot { background: var(--bad); border: 0; border-radius: 50%; height: .45rem; width: .45rem }
svg { display: block; height: auto; width: 100% }
svg text { fill: var(--dim); font: 11px system-ui, sans-serif; font-variant-numeric: tabular-nums;
  text-anchor: middle }
svg text.up, svg text.last { text-anchor: end }
svg text.first { text-anchor: start }
svg path { fill: none; stroke-width: 1.5 }
path.grid { stroke: var(--line); stroke-width: .6 }
path.p50 { stroke: var(--p50) }
path.p95 { stroke: var(--p95) }
path.p99 { stroke: var(--p99) }
path.max { stroke: var(--max); stroke-width: 1 }
path.mark { stroke-dasharray: 4 2 }
svg path.area { fill: var(--area); fill-opacity: .25; stroke: var(--area); stroke-width: 1 }
rect.bin { fill: var(--area); fill-opacity: .55 }
circle.dot { fill: var(--bad); fill-opacity: .7 }
.runs { margin: .5rem 0 1.2rem }
.run { align-items: center; display: grid; gap: .8rem; grid-template-columns: minmax(0, 3fr) minmax(0, 4fr) }
.run a { color: inherit; overflow: hidden; text-decoration: none; text-overflow: ellipsis;
  white-space: nowrap }
.run a:hover { text-decoration: underline }
.run a b { display: inline-block; font-weight: normal; min-width: 4.6rem; text-transform: uppercase }
.track, .ticks { position: relative }
.track { background: var(--panel); height: 1.05rem; margin: .1rem 0 }
.track i { background: var(--line); height: 100%; min-width: 2px; position: absolute }
.track i.critical, .track i.high { background: var(--bad) }
.track i.medium { background: var(--warn) }
.track i.low { background: var(--p50) }
.ticks { color: var(--dim); height: 1.3rem }
.ticks i { border-left: 1px solid var(--line); font-size: .85em; font-style: normal; padding-left: .25rem;
  position: absolute }
details { margin: .3rem 0 }
summary { cursor: pointer }
summary b { display: inline-block; min-width: 4.6rem; text-transform: uppercase }
summary b { font-weight: normal } details[open] summary { font-weight: 600 }
.critical summary b, .high summary b, .critical a b, .high a b { color: var(--bad) }
.medium summary b, .medium a b { color: var(--warn) }
details article { margin-top: .3rem } details article h3 { display: none }
@media print { figure, .tiles div { border: 1px solid var(--line) } }
"""
)
"""The style sheet of reports."""
