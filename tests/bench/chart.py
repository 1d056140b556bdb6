"""Bars as SVG. Its colours are between light and dark, so that they can be read on both."""

from html import escape
from typing import Final, NamedTuple

WIDTH: Final = 760
ROW: Final = 30
LEFT: Final = 330  # for the names
RIGHT: Final = 90  # for the numbers
TOP: Final = 44
INK: Final = "#767c85"
OWN: Final = "#1d9a6c"
OTHER: Final = "#8d97a5"


class Bar(NamedTuple):
    """One row: the median, the range it comes from, and whether it is this queue's."""

    name: str
    value: float
    lowest: float
    highest: float
    own: bool = False


def svg(title: str, bars: list[Bar]) -> str:
    """Return a chart of bars, in their order, that starts at zero."""
    height = TOP + ROW * len(bars) + 10
    scale = (WIDTH - LEFT - RIGHT) / max(bar.highest for bar in bars)
    rows = "\n".join(_row(bar, TOP + ROW * at, scale) for at, bar in enumerate(bars))
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-labelledby="t d"
 font-family="system-ui, sans-serif" font-size="14" fill="{INK}">
<title id="t">{escape(title)}</title>
<desc id="d">{escape(described(bars))}</desc>
<text x="0" y="20" font-size="16" font-weight="600">{escape(title)}</text>
{rows}
</svg>
"""


def described(bars: list[Bar]) -> str:
    """Return the bars as a sentence, for those who don't see them."""
    return "; ".join(f"{bar.name}: {bar.value:,.0f}" for bar in bars) + "."


def _row(bar: Bar, y: int, scale: float) -> str:
    middle = y + ROW // 2
    low, high = LEFT + bar.lowest * scale, LEFT + bar.highest * scale
    weight = ' font-weight="600"' if bar.own else ""
    return f"""<text x="{LEFT - 10}" y="{middle + 5}" text-anchor="end"{weight}>{escape(bar.name)}</text>
<rect x="{LEFT}" y="{y + 5}" width="{max(1.0, bar.value * scale):.1f}" height="{ROW - 10}" rx="2" \
fill="{OWN if bar.own else OTHER}"/>
<path d="M{low:.1f} {middle}H{high:.1f}" stroke="{INK}" stroke-width="2"/>
<text x="{max(high, LEFT + bar.value * scale) + 8:.1f}" y="{middle + 5}"{weight}>{bar.value:,.0f}</text>"""
