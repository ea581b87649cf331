"""A timeline as an SVG: a row for each device, one for the host."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from timeline_trace import Timeline, TraceSpan

WIDTH, LEFT, ROW, BAR = 1000, 90, 46, 30
SECONDS = 3.0
"""The seconds that are drawn, from the start."""

COLOURS = {
    "denoise": "#4269d0",
    "decode": "#ff725c",
    "encode": "#6cc5b0",
    "admit": "#3ca951",
    "take": "#efb118",
    "queue a run": "#4269d0",
    "queue decoding": "#ff725c",
    "wait for a run": "#dfe3ec",
    "wait for pictures": "#f6d9d3",
}
OTHER = "#9498a0"
STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#222}.small{font-size:11px;fill:#555}"
    "@media(prefers-color-scheme:dark){.page{fill:#fff}}"
)


def draw(timeline: Timeline) -> str:
    """Return the picture of a timeline's first seconds."""
    seconds = min(SECONDS, timeline.seconds)
    rows = [
        (f"device {device}", f"busy {timeline.busy(device):.1%}", spans)
        for device, spans in timeline.devices.items()
    ]
    rows.append(("host", "", timeline.host))
    height = 40 + ROW * len(rows) + 62
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        "<title>A full queue: what the devices and the host do</title>",
        f'<style>{STYLE}</style><rect class="page" width="{WIDTH}" height="{height}" fill="#fff"/>',
        '<text x="8" y="20" font-weight="600">A full queue: what each device runs, and what the host does'
        " meanwhile</text>",
    ]
    for index, (name, note, spans) in enumerate(rows):
        parts += _row(34 + ROW * index, name, note, spans, origin=timeline.begin, seconds=seconds)
    parts += _axis(34 + ROW * len(rows), seconds)
    parts += _legend(height - 14, [span.what for _, _, spans in rows for span in spans])
    return "\n".join([*parts, "</svg>", ""])


def _row(
    top: float, name: str, note: str, spans: Sequence[TraceSpan], *, origin: float, seconds: float
) -> Iterator[str]:
    yield f'<text x="8" y="{top + 16}">{escape(name)}</text>'
    yield f'<text class="small" x="8" y="{top + 30}">{escape(note)}</text>'
    scale = (WIDTH - LEFT - 12) / seconds
    yield f'<rect x="{LEFT}" y="{top}" width="{seconds * scale:.1f}" height="{BAR}" fill="#f4f4f4"/>'
    for span in spans:
        begin = span.begin - origin
        if begin >= seconds:
            continue
        width = max(0.6, (min(span.end - origin, seconds) - begin) * scale)
        colour = COLOURS.get(span.what, OTHER)
        yield (
            f'<rect x="{LEFT + begin * scale:.1f}" y="{top}" width="{width:.1f}" height="{BAR}" '
            f'fill="{colour}" stroke="#fff" stroke-width=".6"><title>{escape(span.what)} '
            f"{span.seconds * 1000:.1f} ms</title></rect>"
        )


def _axis(top: float, seconds: float) -> Iterator[str]:
    scale = (WIDTH - LEFT - 12) / seconds
    tick = 0.5 if seconds > 1.5 else 0.1
    for number in range(int(seconds / tick) + 1):
        x = LEFT + number * tick * scale
        yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top - 12}" y2="{top - 6}" stroke="#888"/>'
        yield f'<text class="small" x="{x:.1f}" y="{top + 6}" text-anchor="middle">{number * tick:g} s</text>'


def _legend(y: float, present: Sequence[str]) -> Iterator[str]:
    x = 8.0
    for what in dict.fromkeys([*COLOURS, *present]):
        if what not in present:
            continue
        yield f'<rect x="{x:.0f}" y="{y - 10}" width="12" height="12" fill="{COLOURS.get(what, OTHER)}"/>'
        yield f'<text class="small" x="{x + 17:.0f}" y="{y}">{escape(what)}</text>'
        x += 36 + 6.2 * len(what)
