"""A plot of what a row costs as something grows: both scales logarithmic, a line for each kind of work."""

from __future__ import annotations

import math

from bench.drawing import Drawing
from bench.measurement import Point

WIDTH, HEIGHT = 560, 340
LEFT, RIGHT, TOP, BOTTOM = 70, 540, 70, 290
INSET = 34
"""Room for the words below the first and the last point."""


def plot(points: list[Point]) -> str:
    """Return the plot of points that share one; their x in the order given, evenly apart."""
    name = points[0].plot
    drawing = Drawing(
        WIDTH, f"Microseconds a row as {name}", "; ".join(f"{p.line} at {p.x}: {p.microseconds:.3g}" for p in points)
    )
    drawing.text(20, 28, f"Microseconds a row as {name}", size=16)
    xs = list(dict.fromkeys(point.x for point in points))
    low = math.floor(math.log10(min(point.microseconds for point in points)))
    high = max(math.ceil(math.log10(max(point.microseconds for point in points))), low + 1)

    def at(point: Point) -> tuple[float, float]:
        across = xs.index(point.x) / max(len(xs) - 1, 1)
        up = (math.log10(point.microseconds) - low) / (high - low)
        return LEFT + INSET + across * (RIGHT - LEFT - 2 * INSET), BOTTOM - up * (BOTTOM - TOP)

    for power in range(low, high + 1):
        y = BOTTOM - (power - low) / (high - low) * (BOTTOM - TOP)
        drawing.rule(LEFT, y, RIGHT, y)
        drawing.text(LEFT - 8, y + 4, f"{10.0**power:,g}", kind="quiet", anchor="end", size=12)
    for x in xs:
        place = LEFT + INSET + xs.index(x) / max(len(xs) - 1, 1) * (RIGHT - LEFT - 2 * INSET)
        drawing.text(place, BOTTOM + 22, f"{x:,}", kind="quiet", anchor="middle", size=12)
    lines = list(dict.fromkeys(point.line for point in points))
    drawing.legend(LEFT + 8, 50, lines)
    for number, line in enumerate(lines):
        drawing.line([at(point) for point in points if point.line == line], number)
    return drawing.svg(HEIGHT)
