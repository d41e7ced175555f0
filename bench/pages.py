"""Put the figures of a run where people read them: docs/performance.md, the README, and their pictures."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from bench.measurement import Figure
from bench.picture import draw
from bench.plot import plot
from bench.report import Report, scaling_table, verdict

BEGIN, END = "<!-- figures: begin, written by `python -m bench --write-docs` -->", "<!-- figures: end -->"
IMAGES = Path("docs/images")


def write(report: Report, repository: Path) -> list[Path]:
    """Write the pages; return what was written."""
    images = repository / IMAGES
    pictures = {images / "bench.svg": draw(report.figures, report.facts)}
    plots = dict.fromkeys(point.plot for point in report.points)
    for name in plots:
        pictures[images / plot_file(name)] = plot([point for point in report.points if point.plot == name])
    for path, drawn in pictures.items():
        path.write_text(drawn)
    performance, readme = repository / "docs" / "performance.md", repository / "README.md"
    _replace(performance, _performance(report, list(plots)))
    _replace(readme, _readme(report))
    return [performance, readme, *pictures]


def plot_file(name: str) -> str:
    """Return the file name of a plot."""
    return "bench-" + re.sub(r"[^a-z]+", "-", name.partition("(")[0].lower()).strip("-") + ".svg"


def _performance(report: Report, plots: list[str]) -> str:
    parts = [report.markdown()]
    if plots:
        shown = "\n".join(f"![What a row costs as {name}](images/{plot_file(name)})" for name in plots)
        table = scaling_table(report.points) + "\n\n" + verdict(report.points)
        parts = [report.markdown().replace(table, shown + "\n\n" + table)]
    return "\n\n".join(["![Every job as a multiple of Penstock](images/bench.svg)", *parts])


def _readme(report: Report) -> str:
    """Return the table of the README: the real peers only, without spreads."""
    figures = [f for f in report.figures if not f.bound]
    parts = ["![Every job beside its peers, as a multiple of Penstock](docs/images/bench.svg)"]
    parts.append(f"{report.facts['date']}, {report.facts['machine']}; {report.facts['rows']}. The best in bold.")
    short = Report(report.facts, {}, {}, [_plain(figure) for figure in figures], [], [])
    for section in dict.fromkeys(figure.section for figure in figures):
        parts.append(short.table(section).replace("| job |", f"| {section} |", 1))
    return "\n\n".join(parts)


def _plain(figure: Figure) -> Figure:
    return replace(figure, score=replace(figure.score, repeats=1))


def _replace(page: Path, words: str) -> None:
    text = page.read_text()
    before, found, rest = text.partition(BEGIN)
    _, ended, after = rest.partition(END)
    assert found, f"{page} has no place for figures"
    assert ended, f"{page} has no end of figures"
    page.write_text(f"{before}{BEGIN}\n{words}\n{END}{after}")
