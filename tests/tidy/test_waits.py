"""Tests wait for conditions by one function of the kit and pause nowhere else; they replace no code behind its back."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
FILES = sorted(TESTS.rglob("test_*.py"))
WAITS = frozenset(("wait_until", "until", "eventually"))
SLEEPS = frozenset(("time.sleep", "sleep", "os.sched_yield"))
ELSEWHERE = {"spark/test_spark_server.py": "the function runs in a Python worker of Spark, which has no test kit"}

REPLACING = frozenset(
    (
        "scenarios/test_cli_missing_columns.py",
        "scenarios/test_dropped_partitions.py",
        "scenarios/test_served_pages.py",
        "scenarios/test_stream_pins.py",
        "spark/test_spark_worker_python.py",
        "unit/cli/input/test_inputs.py",
        "unit/cli/root/test_command_group.py",
        "unit/engine/leases/test_leases.py",
        "unit/engine/lookup/test_service.py",
        "unit/engine/owners/test_staging.py",
        "unit/engine/table/test_deletion.py",
        "unit/engine/table/test_open_tables.py",
    )
)
"""Files that put something else in the place of code or a constant: to become arguments. No others may follow."""


def faults_of(text: str) -> list[str]:
    """Return the waits that a file defines, and the pauses that it makes."""
    faults = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef) and node.name in WAITS:
            faults.append(f"line {node.lineno}: {node.name} is in tests.kit.waiting")
        if isinstance(node, ast.Call) and _pauses(node):
            faults.append(f"line {node.lineno}: a pause; wait_until says for what")
    return faults


def _pauses(call: ast.Call) -> bool:
    # An event that was made here is set by nobody: to wait for it is to sleep.
    fresh = isinstance(call.func, ast.Attribute) and call.func.attr == "wait" and isinstance(call.func.value, ast.Call)
    return ast.unparse(call.func) in SLEEPS or (fresh and ast.unparse(call.func).endswith("Event().wait"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(TESTS)))
def test_file_waits_by_the_kit(path: Path) -> None:
    if str(path.relative_to(TESTS)) not in ELSEWHERE:
        assert faults_of(path.read_text()) == []


def test_no_other_file_replaces_code_or_constants() -> None:
    patch = "monkeypatch." + "setattr("
    found = {str(path.relative_to(TESTS)) for path in FILES if patch in path.read_text()}

    assert found <= REPLACING, "pass it in as an argument; tests.kit.watched_node changes what a node's calls do"


@pytest.mark.parametrize("line", ["time.sleep(1)", "threading.Event().wait(0.1)", "def wait_until(): ...", "sleep(2)"])
def test_pause_is_found(line: str) -> None:
    assert len(faults_of(line)) == 1
