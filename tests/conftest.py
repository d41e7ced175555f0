"""What every test shares: how hard property tests try, and where the tree is."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

# The same examples on every run, so that a failure is a change's fault; `make test-all` looks further.
settings.register_profile("steady", max_examples=100, deadline=None, derandomize=True, database=None)
settings.register_profile("deep", max_examples=2_000, deadline=None, print_blob=True)
settings.load_profile("steady")


@pytest.fixture(scope="session")
def repository() -> Path:
    """Return the root of the checkout."""
    return Path(__file__).parents[1]
