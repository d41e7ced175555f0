"""What a notebook shows of tables and scans."""

from __future__ import annotations

import penstock


def test_table_and_info_show_their_columns(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.sums", "city STRING, amount DECIMAL(18,2) SUM, PRIMARY KEY (city)")

    html = table._repr_html_()

    assert html == table.info._repr_html_()
    assert "<td>city</td><td>STRING</td><td>key</td>" in html
    assert "<td>amount</td><td>DECIMAL(18, 2)</td><td>sum</td>" in html


def test_scan_shows_its_cut_and_reads_nothing(connection: penstock.Connection) -> None:
    table = connection.create_table("shop.orders", "id BIGINT, PRIMARY KEY (id)", buckets=2)
    table.upsert([{"id": number} for number in range(10)])

    with table.scan() as scan:
        html = scan._repr_html_()

        assert "<td>id</td><td>int64</td>" in html
        assert html.count("<tr>") == 2 + 1 + 2
        assert scan.to_arrow().num_rows == 10
