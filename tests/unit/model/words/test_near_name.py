from __future__ import annotations

import pytest

from penstock.model.words.near_name import did_you_mean, near_name


@pytest.mark.parametrize(
    ("name", "near"),
    [("citty", "city"), ("CITY", "city"), ("amont", "Amount"), ("weather", None), ("", None), (7, None)],
)
def test_near_name_is_the_one_that_was_meant(name: object, near: str | None) -> None:
    assert near_name(name, ["id", "city", "Amount"]) == near


def test_question_is_asked_only_where_a_name_is_near() -> None:
    assert did_you_mean("citty", ["city"]) == "did you mean city? "
    assert did_you_mean("weather", ["city"]) == ""
