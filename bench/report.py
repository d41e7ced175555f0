"""One table out: Markdown for people, JSON for programs."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from bench.measurement import Figure, Measurement, Point, Score

LEVEL_MAX = 1.5
"""Linear: from the first point to the last the cost, shared as it should be, grew by no more than this."""


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that a run found."""

    facts: dict[str, str]
    settings: dict[str, str]
    absent: dict[str, str]
    figures: list[Figure]
    measurements: list[Measurement]
    points: list[Point]

    def document(self) -> str:
        """Return all of it as JSON."""
        return json.dumps(asdict(self), indent=2)

    def markdown(self) -> str:
        """Return all of it as Markdown."""
        parts = ["\n".join(f"- {name}: {value}" for name, value in self.facts.items())]
        sections = dict.fromkeys(figure.section for figure in self.figures)
        parts += [f"### {_title(name)}\n\n{self.table(name)}" for name in sections]
        if self.measurements:
            parts.append("### Beside raw bounds\n\n" + bounds_table(self.measurements))
        if self.points:
            parts.append("### As it scales\n\n" + scaling_table(self.points) + "\n\n" + verdict(self.points))
        said = [f"- **{name}** {value}" for name, value in self.settings.items()]
        said += [f"- {name} did not take part: {why}" for name, why in self.absent.items()]
        return "\n\n".join([*parts, "### Settings\n\n" + "\n".join(said)])

    def table(self, section: str) -> str:
        """Return the table of one section: a row a job, a column a peer, the best of the real ones in bold."""
        figures = [figure for figure in self.figures if figure.section == section]
        peers = sorted(dict.fromkeys((f.bound, f.peer) for f in figures), key=lambda pair: pair[0])
        lines = ["| job | unit | " + " | ".join(f"*{name}*" if bound else name for bound, name in peers) + " |"]
        lines.append("|---|---|" + "---:|" * len(peers))
        for job in dict.fromkeys(figure.score.job for figure in figures):
            scores = {figure.peer: figure.score for figure in figures if figure.score.job == job}
            first = _best([f for f in figures if f.score.job == job and not f.bound])
            cells = [_cell(scores.get(name), bold=name == first) for _, name in peers]
            unit = next(iter(scores.values())).unit
            lines.append(f"| {job} | {unit} | " + " | ".join(cells) + " |")
        return "\n".join(lines)


def bounds_table(measurements: list[Measurement]) -> str:
    """Return the table of our rates beside raw bounds."""
    lines = ["| job | ours | beside | its rate | ours / its | spread |", "|---|---:|---|---:|---:|---:|"]
    for m in measurements:
        lines.append(
            f"| {m.job} | {m.ours:,.0f} {m.unit} | {m.bound_name} | {m.bound:,.0f} | {m.ratio:.2f}x | {m.spread:.0f}% |"
        )
    return "\n".join(lines)


def scaling_table(points: list[Point]) -> str:
    """Return the cost of a row at each point."""
    lines = ["| as | work | at: microseconds a row | last / first | of linear | |", "|---|---|---|---:|---:|---|"]
    for plot, line in dict.fromkeys((point.plot, point.line) for point in points):
        row = [point for point in points if (point.plot, point.line) == (plot, line)]
        costs = ", ".join(f"{point.x:,}: {_number(point.microseconds)}" for point in row)
        raw = row[-1].microseconds / row[0].microseconds
        lines.append(f"| {plot} | {line} | {costs} | {raw:.2f}x | {growth(row):.2f} | {_word(row)} |")
    return "\n".join(lines)


def growth(row: list[Point]) -> float:
    """Return by how much the cost, shared as it should be, grew from the first point to the last."""
    first, last = row[0], row[-1]
    return (last.microseconds * last.share) / (first.microseconds * first.share)


def verdict(points: list[Point]) -> str:
    """Name what is worse than linear."""
    rows: dict[tuple[str, str], list[Point]] = {}
    for point in points:
        rows.setdefault((point.plot, point.line), []).append(point)
    worse = [
        f"{line} as {plot} ({growth(row):.1f} times linear)"
        for (plot, line), row in rows.items()
        if growth(row) > LEVEL_MAX
    ]
    return f"Worse than linear: {'; '.join(worse)}." if worse else "Nothing is worse than linear."


def _word(row: list[Point]) -> str:
    return "worse than linear" if growth(row) > LEVEL_MAX else "linear"


def _best(figures: list[Figure]) -> str | None:
    if len(figures) < 2:
        return None
    rank = min if figures[0].score.less_is_better else max
    return rank(figures, key=lambda figure: figure.score.value).peer


def _cell(score: Score | None, *, bold: bool) -> str:
    if score is None:
        return ""
    value = _number(score.value)
    spread = f" ±{score.spread:.0f}%" if score.repeats > 1 else ""
    note = f" ({score.note})" if score.note else ""
    return (f"**{value}**" if bold else value) + spread + note


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _title(section: str) -> str:
    return section[:1].upper() + section[1:]


def read(document: str) -> Report:
    """Return a report from its JSON."""
    found: dict[str, Any] = json.loads(document)
    figures = [Figure(**{**figure, "score": Score(**figure["score"])}) for figure in found["figures"]]
    return Report(
        found["facts"],
        found["settings"],
        found["absent"],
        figures,
        [Measurement(**measurement) for measurement in found["measurements"]],
        [Point(**point) for point in found["points"]],
    )


def merged(reports: list[Report]) -> Report:
    """Return the figures of runs of the same rows as one; of the same job the last run's, and the first run's facts."""
    assert len({report.facts["rows"] for report in reports}) == 1, "runs of other rows cannot stand in one table"
    figures = {(f.section, f.peer, f.score.job): f for report in reports for f in report.figures}
    measured = {(m.job, m.unit, m.bound_name): m for report in reports for m in report.measurements}
    points = {(p.plot, p.line, p.x): p for report in reports for p in report.points}
    dates = list(dict.fromkeys(report.facts["date"] for report in reports))
    when = " and ".join(dates) if len(dates) < 3 else f"{min(dates)} to {max(dates)}"
    return Report(
        {**reports[0].facts, "date": when},
        {name: words for report in reports for name, words in report.settings.items()},
        {name: why for report in reports for name, why in report.absent.items()},
        list(figures.values()),
        list(measured.values()),
        list(points.values()),
    )
