"""The radar as a picture: one SVG, a row a patch, a column a release, a colour a state."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from builder.patches.radar import Radar, Track
from builder.patches.state import PatchVerdict, State

_COLOURS = {
    State.CLEAN: "#1a7f37",
    State.OFFSET: "#8fce9f",
    State.CONTAINED: "#0969da",
    State.SUPERSEDED: "#8250df",
    State.CONFLICT: "#cf222e",
    State.MALFORMED: "#57606a",
    State.NEEDED: "#bf8700",
}
_CELL, _ROW, _LEFT, _TOP = 26, 24, 300, 78


def picture(radar: Radar) -> str:
    """The SVG text. Cells have a title with the exact state; the pinned release is marked."""
    width = _LEFT + _CELL * len(radar.releases) + 20
    tracks = (*radar.tracks, *radar.superseded)
    height = _TOP + _ROW * len(tracks) + 44
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
            "<style>text {font: 12px sans-serif} .name {font: bold 15px sans-serif}</style>",
            f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
            f'<text x="12" y="24" class="name">{escape(radar.package)}</text>',
            *_heads(radar),
            *(line for row, track in enumerate(tracks) for line in _row(radar, row, track)),
            *_legend(height - 14),
            "</svg>",
            "",
        ]
    )


def _heads(radar: Radar) -> Iterator[str]:
    for column, version in enumerate(radar.releases):
        x = _LEFT + column * _CELL + _CELL // 2 + 4
        weight = ' font-weight="bold"' if version == radar.pinned else ""
        yield f'<text transform="translate({x} {_TOP - 8}) rotate(-60)"{weight}>{escape(version)}</text>'


def _row(radar: Radar, row: int, track: Track) -> Iterator[str]:
    y = _TOP + row * _ROW
    name = track.file.rpartition("/")[2].removesuffix(".patch")
    yield f'<text x="12" y="{y + 16}">{escape(name[:44])}<title>{escape(track.description)}</title></text>'
    for column, (version, verdict) in enumerate(zip(radar.releases, track.verdicts, strict=True)):
        yield _cell(
            _LEFT + column * _CELL, y, f"{name} on {version}: {verdict.label}", verdict, pinned=version == radar.pinned
        )


def _cell(x: int, y: int, title: str, verdict: PatchVerdict, *, pinned: bool) -> str:
    edge = ' stroke="#1f2328" stroke-width="2"' if pinned else ""
    return (
        f'<rect x="{x + 1}" y="{y + 1}" width="{_CELL - 3}" height="{_ROW - 3}" rx="3"'
        f' fill="{_COLOURS[verdict.state]}"{edge}><title>{escape(title)}</title></rect>'
    )


def _legend(y: int) -> Iterator[str]:
    for index, (state, colour) in enumerate(_COLOURS.items()):
        x = 12 + index * 100
        yield f'<rect x="{x}" y="{y - 11}" width="14" height="14" rx="3" fill="{colour}"/>'
        yield f'<text x="{x + 19}" y="{y + 1}">{state.value}</text>'
