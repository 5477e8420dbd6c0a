"""The keys of hosts, which are their names in every format."""

from __future__ import annotations

import pytest

from ext4audit.renderers import Audited
from ext4audit.report import ReportSource
from support.builders import host
from support.formats.sample_reports import report, root


def named(key: str, name: str) -> Audited:
    """Build a host whose key is `key` and whose own name is `name`."""
    made = report(host(root(), name=name))
    return Audited("x/a.tar", made._replace(source=ReportSource("snapshot", "x/a.tar", key)))


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (named("db1", "localhost"), "db1"),
        (named("", "localhost"), "localhost"),
        (named("", ""), "x/a.tar"),
        (Audited("x/b.tar", None, "bad", key="b"), "b"),
        (Audited("x/b/", None, "bad"), "b"),
    ],
    ids="key own-name nameless unread unread-without-key".split(),
)
def test_a_host_is_named_by_its_key(one: Audited, expected: str) -> None:
    """The operator's name takes precedence over the host's own, whatever other hosts there are."""
    assert one.name == expected
