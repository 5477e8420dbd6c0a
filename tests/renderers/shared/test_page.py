"""The display names of hosts."""

from __future__ import annotations

import pytest

from ext4audit.renderers.shared import Audited, host_names
from support.builders import host
from support.formats.sample_reports import report, root


def named(label: str, name: str) -> Audited:
    """Make a host with this name from this source."""
    return Audited(label, report(host(root(), name=name)))


@pytest.mark.parametrize(
    ("hosts", "expected"),
    [
        ([named("a", "db1"), named("b", "db2")], ("db1", "db2")),
        ([named("x/a.tar", "db1"), named("x/b.tar", "db1")], ("db1 (a.tar)", "db1 (b.tar)")),
        ([named("x/a", "db1"), named("y/a", "db1")], ("db1 (x/a)", "db1 (y/a)")),
        ([named("a", "db1"), named("a", "db1")], ("db1 (a)", "db1 (a) #2")),
        ([named("a", ""), Audited("x/b/", None, "bad")], ("a", "b")),
        ([named("a", "x\x1b"), named("b", r"x\x1b")], ("x\x1b (a)", r"x\x1b (b)")),
        ([named("a", "x"), named("a", "x"), named("c", "x (a) #2")], None),
    ],
    ids="different alike same-end same-source nameless shown-alike looks-numbered".split(),
)
def test_host_names_are_unique(hosts: list[Audited], expected: tuple[str, ...] | None) -> None:
    """Hosts of one name are disambiguated by their sources, then by a number."""
    names = host_names(hosts)
    assert len(set(names)) == len(hosts)
    assert expected is None or names == expected
