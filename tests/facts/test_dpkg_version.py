import shutil
import subprocess

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ext4audit.facts.dpkg_version import compare_dpkg

OLDER_FIRST = [
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
EQUAL = [
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


@pytest.mark.parametrize(("older", "newer"), OLDER_FIRST)
def test_the_older_sorts_before_the_newer(older: str, newer: str) -> None:
    """The comparison agrees with dpkg whichever way round it is asked."""
    assert (compare_dpkg(older, newer), compare_dpkg(newer, older)) == (-1, 1)


@pytest.mark.parametrize(("left", "right"), EQUAL)
def test_spellings_of_one_version_are_equal(left: str, right: str) -> None:
    """A zero epoch, a zero revision and leading zeros do not make a version another one."""
    assert (compare_dpkg(left, right), compare_dpkg(right, left)) == (0, 0)


def dpkg_says(left: str, relation: str, right: str) -> bool:
    """Ask dpkg itself."""
    words = ["dpkg", "--compare-versions", left, relation, right]
    done = subprocess.run(words, check=False, capture_output=True)
    assert done.returncode in {0, 1}, done.stderr
    return done.returncode == 0


@pytest.mark.skipif(shutil.which("dpkg") is None, reason="dpkg is not installed")
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(left=VERSIONS, right=VERSIONS)
def test_the_order_is_that_of_dpkg(left: str, right: str) -> None:
    """Random versions are in the order in which dpkg has them."""
    relation = {-1: "lt", 0: "eq", 1: "gt"}[compare_dpkg(left, right)]
    assert dpkg_says(left, relation, right)
