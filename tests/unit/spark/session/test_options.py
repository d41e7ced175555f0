"""Options: both spellings, any case, and none that nobody knows."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from penstock.errors import InvalidError
from penstock.spark.session.options import OPTIONS, Options, markdown


def test_both_spellings_and_any_case_mean_the_same() -> None:
    for name in ("max_rows_per_trigger", "maxRowsPerTrigger", "MAXROWSPERTRIGGER", "maxrowspertrigger"):
        assert Options({name: "5"}).count("max_rows_per_trigger") == 5


def test_unknown_option_is_refused_with_the_list() -> None:
    with pytest.raises(InvalidError, match=r"no such option; did you mean table\? there are url, table") as caught:
        Options({"tabel": "x"})
    assert caught.value.facts["option"] == "tabel"


def test_python_values_become_text_that_reads_back() -> None:
    options = Options({"columns": ["a", "b,c"], "fail_on_data_loss": False, "split_rows": 7, "filter": None})

    again = Options(options.for_spark())

    assert again.names("columns") == ("a", "b,c")
    assert again.flag("fail_on_data_loss") is False
    assert again.count("split_rows") == 7
    assert again.get("filter") is None
    assert pickle.loads(pickle.dumps(again)).for_spark() == again.for_spark()


def test_values_are_checked() -> None:
    with pytest.raises(InvalidError, match="at least 1"):
        Options({"split_rows": "0"}).count("split_rows")
    with pytest.raises(InvalidError, match="true, false"):
        Options({"fail_on_data_loss": "maybe"}).flag("fail_on_data_loss")
    with pytest.raises(InvalidError, match="list of names"):
        Options({"columns": "[1]"}).names("columns")
    with pytest.raises(InvalidError, match="list of names"):
        Options({"columns": "[oops"}).names("columns")
    with pytest.raises(InvalidError, match="name the table"):
        _ = Options({}).table
    assert Options({"columns": "a, b"}).names("columns") == ("a", "b")
    assert Options({"max_bytes_per_trigger": "4MB"}).size("max_bytes_per_trigger") == 4 << 20
    assert Options({}).duration_ms("retry_timeout") == 600_000


def test_path_that_spark_is_given_is_the_table_and_no_other() -> None:
    assert Options({"path": "shop.t"}).table == "shop.t"
    assert Options(Options({"path": "shop.t", "table": "shop.t"}).for_spark()).table == "shop.t"
    with pytest.raises(InvalidError, match=r"two tables are named.*leave that out table=shop\.t path=/data/t"):
        Options({"path": "/data/t", "table": "shop.t"})


def test_url_comes_from_the_environment_if_nobody_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_URL", "penstock://there:1")

    assert Options({}).url == "penstock://there:1"
    assert Options({"url": "penstock://here:1"}).url == "penstock://here:1"
    monkeypatch.delenv("PENSTOCK_URL")
    with pytest.raises(InvalidError, match="PENSTOCK_URL"):
        _ = Options({}).url


def test_token_is_not_shown() -> None:
    assert "secret" not in repr(Options({"token": "secret", "table": "t"}))


def test_table_for_people_has_every_option() -> None:
    lines = markdown().splitlines()

    assert len(lines) == len(OPTIONS) + 2
    assert len({option.name for option in OPTIONS}) == len(OPTIONS)


def test_guide_carries_the_table_of_options() -> None:
    guide = Path(__file__).parents[4] / "docs" / "guide" / "spark.md"

    assert markdown() in guide.read_text()
