from __future__ import annotations

import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext4audit.facts.versions import compare_dpkg, compare_rpm, split_release
from support.examples import examples

OLDER_RPM_FIRST = [
    ("1.0", "2.0"),
    ("2.0", "2.0.1"),
    ("5.5p1", "5.5p2"),
    ("5.5p1", "5.5p10"),
    ("10xyz", "10.1xyz"),
    ("xyz10", "xyz10.1"),
    ("xyz.4", "8"),
    ("5.5p2", "5.6p1"),
    ("5.6p1", "6.5p1"),
    ("6.0", "6.0.rc1"),
    ("10a2", "10b2"),
    ("1.0a", "1.0aa"),
    ("2.0", "2.0.1a"),
    ("1.0~rc1", "1.0"),
    ("1.0~rc1", "1.0~rc2"),
    ("1.0~rc1~git123", "1.0~rc1"),
    ("1.0", "1.0^"),
    ("1.0", "1.0^git1"),
    ("1.0^git1", "1.0^git2"),
    ("1.0^git1", "1.01"),
    ("1.0^20160101", "1.0.1"),
    ("1.0^20160101^git1", "1.0^20160102"),
    ("1.0~rc1", "1.0~rc1^git1"),
    ("1.0^git1~pre", "1.0^git1"),
    ("9.al7", "26.al7"),
    ("24.1.al7", "26.al7"),
    ("25.6.al7", "26.al7"),
    ("25.8.al7", "26.al7"),
    ("26.al7", "26.4.al7"),
    ("26.al7", "26.6.al7"),
    ("26.6.al7", "27.7.al7"),
    ("26.al7", "26.al7.x86_64"),
    ("c8dfc93.al7", "26.al7"),
    ("0.1.git.6eb3a5047051.al7", "26.al7"),
    ("4.19.24", "4.19.91"),
]
EQUAL_FOR_RPM = [
    ("2.0.1", "2.0.1"),
    ("2_0", "2.0"),
    ("2_0", "2..0"),
    ("1.05", "1.5"),
    ("1.0", "1.00"),
    ("1.0.", "1.0"),
    ("1.0~rc1", "1.0~rc1"),
    ("", ""),
]


@pytest.mark.parametrize(("older", "newer"), OLDER_RPM_FIRST)
def test_rpm_sorts_the_older_before_the_newer(older: str, newer: str) -> None:
    """The comparison agrees with rpm in both orders of the arguments."""
    assert (compare_rpm(older, newer), compare_rpm(newer, older)) == (-1, 1)


@pytest.mark.parametrize(("left", "right"), EQUAL_FOR_RPM)
def test_spellings_of_one_version_are_equal_to_rpm(left: str, right: str) -> None:
    """Separators and leading zeros do not matter."""
    assert (compare_rpm(left, right), compare_rpm(right, left)) == (0, 0)


@pytest.mark.parametrize(
    ("release", "split"),
    [
        ("4.19.91-25.6.al7.x86_64", ("4.19.91", "25.6.al7")),
        ("4.19.91-26.al7", ("4.19.91", "26.al7")),
        ("4.19.91-c8dfc93.al7.aarch64", ("4.19.91", "c8dfc93.al7")),
        ("4.19.91-0.1.git.6eb3a5047051.al7.x86_64", ("4.19.91", "0.1.git.6eb3a5047051.al7")),
        ("6.1.0-18-amd64", ("6.1.0", "18-amd64")),
        ("5.4.286", ("5.4.286", "")),
    ],
)
def test_a_release_splits_at_the_first_dash_without_its_architecture(
    release: str, split: tuple[str, str]
) -> None:
    """The architecture is not compared."""
    assert split_release(release) == split


OLDER_DPKG_FIRST = [
    ("1.0", "2.0"),
    ("1.9", "1.10"),
    ("1.0", "1.0.1"),
    ("1.0~rc1", "1.0"),
    ("1.0~rc1", "1.0~rc2"),
    ("1.0~~", "1.0~"),
    ("1.0~", "1.0"),
    ("1.0", "1.0a"),
    ("1.0a", "1.0+"),
    ("1.0a", "1.0b"),
    ("1.0-1", "1.0-2"),
    ("1.0-1", "1.0-1+deb12u1"),
    ("1.0-1~bpo11+1", "1.0-1"),
    ("9.9-9", "1:0.1-1"),
    ("1:1.0", "2:0.1"),
    ("6.1.55-1~bpo11+1", "6.1.64~"),
    ("6.1.64~", "6.1.64-1~bpo11+1"),
    ("6.1.64-1", "6.1.66-1~"),
    ("6.1.66-1~", "6.1.66-1~bpo11+1"),
    ("6.1.66-1~bpo11+1", "6.1.66-1"),
    ("5.15.0-91.101", "5.15.0-100.110"),
    ("5.15.0-91.101~20.04.1", "5.15.0-91.101"),
    ("6.1.9-1", "6.1.10-1"),
    ("1.2.3-4-5", "1.2.3-5-1"),
]
EQUAL_FOR_DPKG = [
    ("1.0", "1.0"),
    ("1.0", "1.00"),
    ("1.0", "1.0-0"),
    ("0:1.0", "1.0"),
    ("1.0-", "1.0"),
    ("", ""),
    ("9" * 5000, "0" + "9" * 5000),
]
WORDS = st.text("0123456789.+~aZb", max_size=8).map(lambda text: f"0{text}")
VERSIONS = st.builds(
    lambda epoch, upstream, revision: f"{epoch}{upstream}{revision}",
    st.sampled_from(["", "0:", "1:"]),
    WORDS,
    st.one_of(st.just(""), WORDS.map(lambda word: f"-{word}")),
)


@pytest.mark.parametrize(("older", "newer"), OLDER_DPKG_FIRST)
def test_dpkg_sorts_the_older_before_the_newer(older: str, newer: str) -> None:
    """The comparison agrees with dpkg in both orders of the arguments."""
    assert (compare_dpkg(older, newer), compare_dpkg(newer, older)) == (-1, 1)


@pytest.mark.parametrize(("left", "right"), EQUAL_FOR_DPKG)
def test_spellings_of_one_version_are_equal_to_dpkg(left: str, right: str) -> None:
    """A zero epoch, a zero revision and leading zeros do not matter."""
    assert (compare_dpkg(left, right), compare_dpkg(right, left)) == (0, 0)


def dpkg_says(left: str, relation: str, right: str) -> bool:
    """Return what dpkg itself answers."""
    argv = ["dpkg", "--compare-versions", left, relation, right]
    done = subprocess.run(argv, check=False, capture_output=True)
    assert done.returncode in {0, 1}, done.stderr
    return done.returncode == 0


@pytest.mark.skipif(shutil.which("dpkg") is None, reason="dpkg is not installed")
@examples(150)
@given(left=VERSIONS, right=VERSIONS)
def test_the_order_is_that_of_dpkg(left: str, right: str) -> None:
    """Random versions are sorted as dpkg sorts them."""
    relation = {-1: "lt", 0: "eq", 1: "gt"}[compare_dpkg(left, right)]
    assert dpkg_says(left, relation, right)


LUA = """%{lua:for line in io.lines() do
local left, right = line:match("(%S+) (%S+)")
print(rpm.vercmp(left, right) .. "\\n")
end}"""
VERSIONS = st.text("0129.~^+_aZb", max_size=8).map(lambda text: f"0{text}")
"""A version for rpm.vercmp(), which refuses an empty one and splits at a colon or dash."""


def order_of_rpm(pairs: list[tuple[str, str]]) -> list[int]:
    """Return rpm's own result for each pair."""
    lines = "".join(f"{left} {right}\n" for left, right in pairs)
    done = subprocess.run(
        ["rpm", "--eval", LUA], input=lines, check=True, capture_output=True, text=True
    )
    return [int(word) for word in done.stdout.split()]


@pytest.mark.skipif(shutil.which("rpm") is None, reason="rpm is not installed")
@examples(50)
@given(st.lists(st.tuples(VERSIONS, VERSIONS), min_size=1, max_size=50))
def test_the_order_is_that_of_rpm(pairs: list[tuple[str, str]]) -> None:
    """Random versions are sorted as rpm sorts them."""
    assert [compare_rpm(left, right) for left, right in pairs] == order_of_rpm(pairs)
