"""The picture for the README: every job a row, every peer a mark, as a multiple of Penstock on a logarithmic scale."""

from __future__ import annotations

import math

from bench.drawing import Drawing
from bench.measurement import Figure, Score

WIDTH = 860
LEFT, RIGHT = 270, 830
ROW = 22
OURS = "Penstock"


def draw(figures: list[Figure], facts: dict[str, str]) -> str:
    """Return the picture of all figures that have one of ours beside them."""
    rows = _rows([figure for figure in figures if not figure.bound])
    ratios = [ratio for marks in rows.values() for _, ratio in marks]
    low = min(-1, math.floor(math.log10(min(ratios, default=0.1))))
    high = max(1, math.ceil(math.log10(max(ratios, default=10))))
    described = "Marks left of Penstock's line are slower or larger than it, marks right of the line faster or smaller."
    drawing = Drawing(WIDTH, "Speed beside Penstock's", described)
    peers = list(dict.fromkeys(peer for marks in rows.values() for peer, _ in marks))
    y = _head(drawing, peers, facts)
    top = y + 40
    section, placed = "", list[tuple[float, float, int]]()
    for (part, job), marks in rows.items():
        if part != section:
            section = part
            y += 34
            drawing.text(20, y, part, size=14)
        y += ROW
        drawing.text(34, y + 4, job, kind="quiet", size=12)
        drawing.rule(LEFT, y, RIGHT, y)
        # Marks that would hide each other stand above and below the line.
        xs = {peer: _x(math.log10(ratio), low, high) for peer, ratio in marks}
        placed += [(xs[peer], y + aside, peers.index(peer)) for peer, aside in drawing.apart(xs).items()]
    _scale(drawing, low, high, top, y + 14)
    for mark in placed:
        drawing.mark(*mark)
    return drawing.svg(int(y + 66))


def _rows(figures: list[Figure]) -> dict[tuple[str, str], list[tuple[str, float]]]:
    """Return for each job the peers' speed as a multiple of ours."""
    rows: dict[tuple[str, str], list[tuple[str, float]]] = {}
    ours = {(f.section, f.score.job): f.score for f in figures if f.peer.startswith(OURS)}
    for figure in figures:
        key = (figure.section, figure.score.job)
        # What was too little to be measured has no multiple.
        measured = key in ours and figure.score.value > 0 and ours[key].value > 0
        if measured and not figure.peer.startswith(OURS):
            rows.setdefault(key, []).append((figure.peer, _ratio(figure.score, ours[key])))
    # Jobs run in an order of their own; people look for the peers of one kind together.
    sections = list(dict.fromkeys(section for section, _ in rows))
    return dict(sorted(rows.items(), key=lambda row: sections.index(row[0][0])))


def _ratio(theirs: Score, ours: Score) -> float:
    return ours.value / theirs.value if ours.less_is_better else theirs.value / ours.value


def _head(drawing: Drawing, peers: list[str], facts: dict[str, str]) -> float:
    drawing.text(
        20, 30, "Other systems beside Penstock, the line: right of it they do better, left of it worse", size=16
    )
    drawing.text(
        20, 50, f"{facts.get('date', '')}; {facts.get('machine', '')}; {facts.get('rows', '')}", kind="quiet", size=11
    )
    return drawing.legend(26, 72, peers) + 8


def _scale(drawing: Drawing, low: int, high: int, top: float, bottom: float) -> None:
    for power in range(low, high + 1):
        x = _x(power, low, high)
        drawing.rule(x, top, x, bottom, "axis" if power == 0 else "rule")
        words = f"{10**power:,}x" if power >= 0 else f"1/{10**-power:,}"
        drawing.text(
            x,
            bottom + 18,
            "Penstock" if power == 0 else words,
            kind="word" if power == 0 else "quiet",
            anchor="middle",
            size=12,
        )
    drawing.text(LEFT, bottom + 38, "\u2190 slower, or larger", kind="quiet", size=12)
    drawing.text(RIGHT, bottom + 38, "faster, or smaller \u2192", kind="quiet", anchor="end", size=12)


def _x(power: float, low: int, high: int) -> float:
    return LEFT + (power - low) / (high - low) * (RIGHT - LEFT)
