"""A small SVG drawing: text, lines and marks in colours that can be read on light and dark pages."""

from __future__ import annotations

from html import escape

STYLE = """
  .page { fill: #ffffff } .word { fill: #12324a } .quiet { fill: #51677a }
  .rule { stroke: #c9d6df } .axis { stroke: #51677a }
  .c0 { fill: #c2571a; stroke: #c2571a } .c1 { fill: #2f6f9f; stroke: #2f6f9f } .c2 { fill: #3d8a4f; stroke: #3d8a4f }
  .c3 { fill: #8a4f9e; stroke: #8a4f9e } .c4 { fill: #7a6a2f; stroke: #7a6a2f } .c5 { fill: #5a6b78; stroke: #5a6b78 }
  .c6 { fill: #1f8a8a; stroke: #1f8a8a }
  .line { fill: none; stroke-width: 2 }
  @media (prefers-color-scheme: dark) {
    .page { fill: #10181f } .word { fill: #e3edf4 } .quiet { fill: #9db2c2 }
    .rule { stroke: #2c3c48 } .axis { stroke: #9db2c2 }
    .c0 { fill: #ff9a5c; stroke: #ff9a5c } .c1 { fill: #7cc0f0; stroke: #7cc0f0 } .c2 { fill: #7fd394; stroke: #7fd394 }
    .c3 { fill: #d3a0e6; stroke: #d3a0e6 } .c4 { fill: #d9c877; stroke: #d9c877 } .c5 { fill: #aebfcc; stroke: #aebfcc }
    .c6 { fill: #6fd6d6; stroke: #6fd6d6 }
    .line { fill: none }
  }
"""
COLOURS = 7
MARK = 8.0
"""How wide a mark is."""
LETTER = 7.5
"""How wide a letter of the legend is at most, on average: viewers have fonts of their own."""


class Drawing:
    """A picture of a fixed width that grows downwards as it is drawn."""

    def __init__(self, width: int, title: str, description: str) -> None:
        self._width = width
        self._title, self._description = title, description
        self._parts: list[str] = []

    def text(
        self, x: float, y: float, words: str, *, kind: str = "word", anchor: str = "start", size: int = 13
    ) -> None:
        """Write words."""
        place = f'x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}" font-size="{size}"'
        self._parts.append(f"<text {place}>{escape(words)}</text>")

    def rule(self, x0: float, y0: float, x1: float, y1: float, kind: str = "rule") -> None:
        """Draw a straight line."""
        self._parts.append(f'<line x1="{x0:.1f}" y1="{y0:.1f}" x2="{x1:.1f}" y2="{y1:.1f}" class="{kind}"/>')

    def line(self, points: list[tuple[float, float]], colour: int) -> None:
        """Draw a line through points, each marked."""
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        # The fill of a colour would close the line: a style of its own wins over the class.
        self._parts.append(f'<polyline points="{path}" class="c{colour % COLOURS} line" style="fill: none"/>')
        for x, y in points:
            self.mark(x, y, colour)

    def mark(self, x: float, y: float, colour: int) -> None:
        """Draw a mark; each colour has its own shape, for eyes and printers that see none."""
        kind = f'class="c{colour % COLOURS}"'
        shapes = (
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" {kind}/>',
            f'<rect x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8" {kind}/>',
            f'<path d="M{x:.1f} {y - 5:.1f}l5 9h-10z" {kind}/>',
            f'<path d="M{x:.1f} {y - 6:.1f}l6 6l-6 6l-6 -6z" {kind}/>',
            f'<path d="M{x:.1f} {y + 5:.1f}l5 -9h-10z" {kind}/>',
            f'<path d="M{x - 4:.1f} {y - 4:.1f}l8 8m0 -8l-8 8" style="fill: none; stroke-width: 2.5" {kind}/>',
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" style="fill: none; stroke-width: 2.5" {kind}/>',
        )
        self._parts.append(shapes[colour % COLOURS])

    def legend(self, x: float, y: float, names: list[str]) -> float:
        """Name the colours in order, on as many lines as they need; return where the last one stands."""
        at = x
        for number, name in enumerate(names):
            width = 12 + LETTER * len(name) + 24
            if at > x and at + width > self._width:
                at, y = x, y + 20
            self.mark(at, y, number)
            self.text(at + 12, y + 4, name, size=12)
            at += width
        return y

    @staticmethod
    def apart(xs: dict[str, float]) -> dict[str, float]:
        """Return how far to move each mark up or down, so that those close to each other are all seen."""
        close = {name: [other for other in xs if abs(xs[other] - x) < MARK] for name, x in xs.items()}
        return {name: MARK * (near.index(name) - (len(near) - 1) / 2) for name, near in close.items()}

    def svg(self, height: int) -> str:
        """Return the picture."""
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self._width} {height}" '
                'font-family="system-ui, sans-serif" role="img" aria-labelledby="title description">',
                f'<title id="title">{escape(self._title)}</title>',
                f'<desc id="description">{escape(self._description)}</desc>',
                f"<style>{STYLE}</style>",
                f'<rect width="{self._width}" height="{height}" class="page"/>',
                *self._parts,
                "</svg>\n",
            ]
        )
