from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext4audit.facts.kernel import Kernel
from ext4audit.parsers.uname import parse_kernel, parse_nodename

VERSION = "#1 SMP"


@pytest.mark.parametrize(
    ("release", "version", "upstream"),
    [
        ("4.19.91-24.8.al7.x86_64", VERSION, (4, 19, 91)),
        ("5.10", VERSION, (5, 10, 0)),
        ("6.18.44-fc-v657", VERSION, (6, 18, 44)),
        ("6.19.0-rc1+", VERSION, (6, 19, 0)),
        ("7", VERSION, (7, 0, 0)),
        ("3.10.0-1160.119.1.el7.x86_64", VERSION, (3, 10, 0)),
        ("5.15.0-91-generic", "#101-Ubuntu SMP Tue Nov 14 13:30:08 UTC 2023", (5, 15, 0)),
        (
            "6.1.0-18-amd64",
            "#1 SMP PREEMPT_DYNAMIC Debian 6.1.76-1 (2024-02-01)",
            (6, 1, 76),
        ),
        ("3.2.0-4-amd64", "#1 SMP Debian 3.2.65-1+deb7u2", (3, 2, 65)),
        ("6.12.94+deb13-amd64", "#1 SMP PREEMPT_DYNAMIC Debian 6.12.94-1", (6, 12, 94)),
        ("6.18.2-custom", "#1 SMP Debian 6.1.76-1", (6, 18, 2)),
        ("5.10.0-30-cloud-amd64", "#1 SMP Debian 5.10.218-1 (2024-06-01)", (5, 10, 218)),
    ],
)
def test_upstream_is_the_version_that_was_built(
    release: str, version: str, upstream: tuple[int, int, int]
) -> None:
    """The release tells it, except on Debian, whose release names the ABI instead."""
    text = f"{release}\n{version}\nx86_64\ndb1\n"
    assert parse_kernel(text) == Kernel(release, version, upstream)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("6.1.0\n#1\nx86_64\ndb1\n", "db1"),
        ("6.1.0\n#1\nx86_64\ndb1", "db1"),
        ("6.1.0\n#1\nx86_64\na\nb\x1b[31m\udcff\n", "a\nb\x1b[31m\udcff"),
        ("6.1.0\n#1\nx86_64\n\n", ""),
    ],
)
def test_a_host_name_may_hold_anything(text: str, name: str) -> None:
    """The host name comes last, so that a newline in it cannot shift the other answers."""
    assert parse_nodename(text) == name


@pytest.mark.parametrize("text", ["", "6.1.0\n", "6.1.0\n#1\nx86_64", "\n\n"])
def test_fewer_than_four_answers_are_refused(text: str) -> None:
    """A text that is cut off is no answer."""
    with pytest.raises(ValueError, match="not the answer of uname"):
        parse_nodename(text)


def test_a_release_without_a_number_is_refused() -> None:
    """A kernel whose version cannot be told is unknown, not old."""
    with pytest.raises(ValueError, match="version number"):
        parse_kernel("custom-6.1\n#1\nx86_64\ndb1\n")


@pytest.mark.parametrize("parse", [parse_kernel, parse_nodename])
@given(text=st.one_of(st.text(), st.text().map(lambda text: f"6.1\n{text}\nx86_64\ndb1\n")))
def test_any_text_is_parsed_or_refused(parse: Callable[[str], object], text: str) -> None:
    """Nothing but ValueError leaves the parsers."""
    try:
        parse(text)
    except ValueError as error:
        assert str(error)  # noqa: PT017 - either outcome is right, another exception is not
