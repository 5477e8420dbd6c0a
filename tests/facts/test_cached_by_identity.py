"""An index is built once per table, and again for another table that is equal."""

from __future__ import annotations

from ext4audit.facts import KEPT, cached_by_identity


def test_an_index_is_built_once_for_each_table() -> None:
    """Tables are distinguished by identity, and the most recent ones are kept."""
    built: list[list[int]] = []

    @cached_by_identity
    def total(table: list[int]) -> int:
        built.append(table)
        return sum(table)

    tables = [[1, 2], [1, 2], [3]]
    assert [total(table) for table in tables] == [3, 3, 3]
    assert [total(table) for table in tables] == [3, 3, 3]
    assert built == tables


def test_only_the_last_tables_are_kept() -> None:
    """The indexes of a whole fleet would fill the memory."""
    built = 0

    @cached_by_identity
    def count(table: list[int]) -> int:
        nonlocal built
        built += 1
        return len(table)

    tables: list[list[int]] = [[] for _ in range(KEPT + 1)]
    for table in (*tables, tables[0]):
        count(table)
    assert built == KEPT + 2
