"""The keys of hosts, which are their names in every format."""

from __future__ import annotations

import pytest

from ext4audit.renderers import Audited
from ext4audit.report import ReportSource
from support.builders import host
from support.formats.sample_reports import report, root


def host_with_key(key: str, name: str) -> Audited:
    """Build a host whose key is `key` and whose own name is `name`."""
    made = report(host(root(), name=name))
    return Audited("x/a.tar", made._replace(source=ReportSource("snapshot", "x/a.tar", key)))


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (host_with_key("db1", "localhost"), "db1"),
        (host_with_key("", "localhost"), "localhost"),
        (host_with_key("", ""), "x/a.tar"),
        (Audited("x/b.tar", None, "bad", key="b"), "b"),
        (Audited("x/b/", None, "bad"), "b"),
    ],
    ids="key own-name nameless unread unread-without-key".split(),
)
def test_host_name_is_its_key(one: Audited, expected: str) -> None:
    """The operator's name takes precedence over the host's own, whatever other hosts there are."""
    assert one.name == expected
