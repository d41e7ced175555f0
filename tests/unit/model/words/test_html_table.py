from __future__ import annotations

from penstock.model.words.html_table import html_table


def test_texts_are_escaped_and_none_is_nothing() -> None:
    html = html_table("<title>", ["a&b"], [["<script>"], [None], [3]])

    assert "<script>" not in html
    assert "&lt;title&gt;" in html
    assert "<th>a&amp;b</th>" in html
    assert "<td></td>" in html
    assert "<td>3</td>" in html
