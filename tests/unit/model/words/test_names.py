from __future__ import annotations

import random
from typing import Any

import pytest

from penstock.errors import InvalidError
from penstock.model.place.system_columns import RESERVED_NAMES
from penstock.model.words.names import (
    TablePath,
    check_column_name,
    check_database_name,
    check_table_name,
    fold,
)

SEED = 20_240_501
_SEEDS_OF_EVIL = [
    *(
        "",
        " ",
        ".",
        "..",
        "...",
        "/",
        "\\",
        "~",
        "-",
        "-rf",
        "--help",
        "1",
        "1table",
        "a b",
        "a.b",
        "a/b",
        "a\\b",
        "a:b",
    ),
    *("../etc", "../../../etc/passwd", "..\\..\\windows", "/etc/passwd", "C:\\x", "C:", "\\\\host\\share", "file:///x"),
    *("a\x00b", "\x00", "a\n", "\na", "a\r\n", "a\tb", "\x1b[31m", "a\x7f", "\x80", "a\u0085", "a\u2028b", "a\u2029b"),
    *("a\u200bb", "a\u200db", "\ufeffa", "a\u202eb", "\u202atxt", "a\u00adb", "\u2066a\u2069", "a\u180eb", "\ue000"),
    *(
        "\ud800",
        "a\udfff",
        "\U000e0041",
        "\uff41\uff42",
        "\u0430bc",
        "\u017f",
        "\u212a",
        "é",
        "e\u0301",
        "ß",
        "İ",
        "ﬁ",
        "²",
        "Ⅷ",
        "名前",
        "😀",
    ),
    *("'", '"', "`", "';--", "a'b", 'a"b', "a`b", "${x}", "$(x)", "`id`", "%2e%2e", "%00", "%s", "{0}", "a;b", "a&b"),
    *(
        "a|b",
        "a>b",
        "a<b",
        "a*",
        "a?",
        "[a]",
        "(a)",
        "a=b",
        "a,b",
        "a+b",
        "a@b",
        "a#b",
        "a!b",
        "a^b",
        "#",
        "*",
        "?",
        "@",
    ),
    *("con.txt", "nul.", "aux:", "com1.log", "LPT1:", "CON ", " CON", "a.", "a ", " a", "a\u00a0", "\u3000a"),
    *("a" * 129, "a" * 1_000, "a" * 100_000, "_" * 129, "ä" * 64, "a-" * 65),
]


def hostile_names() -> list[str]:
    """Return 500 or more names that no database or table may have."""
    chance = random.Random(SEED)
    names = dict.fromkeys(_SEEDS_OF_EVIL)
    bad = [
        chr(code) for code in (*range(0x2D), 0x2F, *range(0x3A, 0x41), 0x5B, 0x5C, 0x7F, 0xA0, 0x202E, 0x1F600, 0xDC80)
    ]
    while len(names) < 520:
        letters = chance.choices("abcXYZ_09-", k=chance.randint(1, 40))
        letters.insert(chance.randint(0, len(letters)), chance.choice(bad))
        names["".join(letters)] = None
    return list(names)


def test_five_hundred_hostile_names_are_refused_for_databases_and_tables() -> None:
    names = hostile_names()
    print(f"seed={SEED}")

    assert len(names) >= 500
    for name in names:
        for check in (check_database_name, check_table_name):
            with pytest.raises(InvalidError) as caught:
                check(name)
            assert len(str(caught.value)) < 400
            assert str(caught.value).isascii()
            assert str(caught.value).isprintable()


@pytest.mark.parametrize("name", ["a", "_", "orders", "Orders_2024-05", "_hidden", "a-b", "a" * 128, "con", "NUL"])
def test_plain_names_are_taken_as_they_are(name: str) -> None:
    assert check_database_name(name) == name
    assert check_table_name(name) == name


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("shop.orders", TablePath("shop", "orders")),
        ("orders", TablePath("default", "orders")),
        (TablePath("shop", "orders"), TablePath("shop", "orders")),
    ],
)
def test_a_path_names_database_and_table(path: str | TablePath, expected: TablePath) -> None:
    assert TablePath.parse(path) == expected


@pytest.mark.parametrize("path", ["", ".", "a.", ".a", "a.b.c", "a..b", "../a", "a/b.c", 7, None, b"a", ("a", "../b")])
def test_what_is_no_path_is_refused(path: Any) -> None:
    with pytest.raises(InvalidError):
        TablePath.parse(TablePath(*path) if isinstance(path, tuple) else path)


def test_a_path_reads_as_it_was_written() -> None:
    assert str(TablePath.parse("shop.orders")) == "shop.orders"


@pytest.mark.parametrize("name", ["a", "a b", "größe", "名前", "a.b", "a/b", "😀", "x" * 255, "select", "`"])
def test_columns_may_have_any_visible_name(name: str) -> None:
    assert check_column_name(name) == name


@pytest.mark.parametrize("name", ["", "x" * 256, "a\x00", "a\nb", "\ud800", "a\u202eb", "\ufeffa", "a\u200bb", 3, None])
def test_columns_have_no_invisible_characters(name: Any) -> None:
    with pytest.raises(InvalidError, match="a column name has"):
        check_column_name(name)


@pytest.mark.parametrize("name", [*sorted(RESERVED_NAMES), "_OP", "_Offset"])
def test_reserved_column_names_are_refused(name: str) -> None:
    with pytest.raises(InvalidError, match="reserved"):
        check_column_name(name)


def test_names_that_people_cannot_tell_apart_fold_together() -> None:
    assert fold("É") == fold("e\u0301")
    assert fold("Straße") == fold("STRASSE")
    assert fold("a") != fold("b")
