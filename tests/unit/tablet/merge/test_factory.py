"""Every merge engine has traits and a rule."""

from __future__ import annotations

import pytest

from penstock.model.table.merge_engine import MergeEngine
from penstock.model.table.spec import make_spec
from penstock.tablet.merge.factory import RULES, merge_rule
from penstock.tablet.merge.last_row import LastRow


def test_every_merge_engine_has_a_rule() -> None:
    assert set(RULES) == set(MergeEngine)


@pytest.mark.parametrize("engine", MergeEngine)
def test_every_merge_engine_has_traits_that_agree(engine: MergeEngine) -> None:
    traits = engine.traits

    assert traits.folds or not traits.retracts, "only what was folded can be taken back"
    assert traits.can_delete or traits.default_delete != "allow"


def test_table_asks_its_engine_and_a_log_table_has_no_trait() -> None:
    folding = make_spec("id BIGINT, n BIGINT SUM, PRIMARY KEY (id)")
    log = make_spec("id BIGINT, n BIGINT")

    assert (folding.folds, folding.retracts, folding.takes_partial) == (True, True, True)
    assert (log.folds, log.retracts, log.takes_partial) == (False, False, False)


def test_log_table_has_a_rule_that_keeps_rows_as_they_are() -> None:
    assert isinstance(merge_rule(make_spec("id BIGINT")), LastRow)
