"""docs/reliability.md says what the tests test."""

from __future__ import annotations

from tests.faults import listing


def test_the_page_lists_every_fault() -> None:
    text = listing.PAGE.read_text("utf-8")
    assert text == listing.page(text), "run: python -m tests.faults.listing"


def test_there_are_enough_faults_and_each_is_explained() -> None:
    rows = [row for group in listing.faults().values() for row in group]
    assert len(rows) >= 45
    assert len({name for name, _ in rows}) == len(rows)
    assert all(text.endswith(".") for _, text in rows)


def test_every_file_of_faults_is_listed() -> None:
    found = {path.name for path in (listing.ROOT / "tests/faults").glob("test_*.py")}
    assert found == {*listing.GROUPS, "test_listing.py"}
