"""Evidence: unknowns are named, kept, and never become values."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest

from ext4audit.evidence import (
    Evidence,
    Implied,
    Known,
    OutOfScope,
    Undetermined,
    Unknown,
    Why,
    absent_means,
    derive,
    for_wording,
    is_surely,
    need,
)

ONE = Known(1, "/sys/one")
TWO = Known("2", "/sys/two")
UNKNOWN = Unknown("the superblock", Why.DENIED, "permission denied", "run as root")
OTHER = Unknown("the kernel", Why.NOT_CAPTURED)


def test_one_known_is_its_value() -> None:
    """A single piece of evidence is returned as its value, not in a tuple."""
    assert need(ONE) == 1


@pytest.mark.parametrize("value", [None, 0, "", (), False])
def test_a_value_that_is_falsy_is_known(value: object) -> None:
    """An empty fstab is known to be empty."""
    assert need(Known(value, "/etc/fstab")) == value


def test_several_known_come_in_their_order() -> None:
    """Two to four values are returned as a tuple in the order of the arguments."""
    assert need(ONE, TWO) == (1, "2")
    assert need(TWO, ONE, TWO) == ("2", 1, "2")
    assert need(ONE, ONE, TWO, TWO) == (1, 1, "2", "2")


@pytest.mark.parametrize(
    ("evidence", "unknowns", "message"),
    [
        ((UNKNOWN,), (UNKNOWN,), "the superblock"),
        ((ONE, UNKNOWN), (UNKNOWN,), "the superblock"),
        ((UNKNOWN, ONE, OTHER), (UNKNOWN, OTHER), "the superblock, the kernel"),
        ((OTHER, TWO, ONE, UNKNOWN), (OTHER, UNKNOWN), "the kernel, the superblock"),
    ],
)
def test_all_unknowns_are_named_at_once(
    evidence: tuple[Any, ...], unknowns: tuple[Unknown, ...], message: str
) -> None:
    """The exception lists everything that is missing, not only the first unknown."""
    with pytest.raises(Undetermined) as raised:
        need(*evidence)
    assert raised.value.unknowns == unknowns
    assert str(raised.value) == message


def test_what_two_values_lack_alike_is_missing_once() -> None:
    """One refused command is a single unknown for everything that it would have shown."""
    refused = Unknown("dumpe2fs -h /dev/sda", Why.DENIED, hint="run as root")
    with pytest.raises(Undetermined) as raised:
        need(refused, Unknown("lsblk", Why.DENIED), replace(refused))
    assert raised.value.unknowns == (refused, Unknown("lsblk", Why.DENIED))
    assert str(raised.value) == "dumpe2fs -h /dev/sda, lsblk"


def test_derived_evidence_joins_the_origins() -> None:
    """A value made of two texts names both as its origin."""
    assert derive("sum", lambda a, b: a + int(b), ONE, TWO) == Known(3, "/sys/one, /sys/two")


def test_derived_evidence_can_name_one_origin() -> None:
    """One origin, such as a directory, can replace the joined ones."""
    assert derive("sum", lambda a, b: a + int(b), ONE, TWO, origin="/sys") == Known(3, "/sys")


def test_an_origin_may_be_empty() -> None:
    """An origin given as empty is not replaced by the joined ones."""
    assert derive("it", lambda a: a, ONE, origin="") == Known(1, "")


@pytest.mark.parametrize(
    ("evidence", "kept"),
    [((UNKNOWN,), UNKNOWN), ((ONE, UNKNOWN, OTHER), UNKNOWN), ((OTHER, UNKNOWN), OTHER)],
)
def test_the_first_unknown_is_the_result(evidence: tuple[Any, ...], kept: Unknown) -> None:
    """The original reason is kept through every step, and the function is not called."""

    def function(*_values: object) -> object:
        pytest.fail("called with an unknown")

    assert derive("sum", function, *evidence) is kept


@pytest.mark.parametrize(
    ("error", "detail"),
    [
        (ValueError("invalid literal: 'abc'"), "invalid literal: 'abc'"),
        (KeyError("DEVNAME"), "unexpected format (KeyError: 'DEVNAME')"),
        (
            ZeroDivisionError("division by zero"),
            "unexpected format (ZeroDivisionError: division by zero)",
        ),
        (RecursionError("too deep"), "unexpected format (RecursionError: too deep)"),
        (StopIteration(), "unexpected format (StopIteration: )"),
        (ValueError(), "unexpected format (ValueError: )"),
        (Undetermined((UNKNOWN,)), "unexpected format (Undetermined: the superblock)"),
    ],
    ids=lambda case: type(case).__name__ if isinstance(case, Exception) else "",
)
def test_any_exception_is_a_text_that_cannot_be_parsed(error: Exception, detail: str) -> None:
    """An exception of a parser becomes an unknown with its text as detail."""

    def function(_value: object) -> object:
        raise error

    found: Evidence[object] = derive("chunk_size", function, ONE)
    assert found == Unknown("chunk_size", Why.UNPARSABLE, detail)


@pytest.mark.parametrize("leaving", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_ends_the_program_passes(leaving: type[BaseException]) -> None:
    """Ctrl-C in a parser is not an error of the text."""

    def function(_value: object) -> object:
        raise leaving

    with pytest.raises(leaving):
        derive("chunk_size", function, ONE)


@pytest.mark.parametrize("why", Why)
def test_only_what_is_absent_has_a_meaning(why: Why) -> None:
    """Evidence that was denied, late or never captured stays unknown."""
    gap = Unknown("md/layout", why)
    expected = Implied(7, "md/layout (absent)") if why is Why.ABSENT else gap
    assert absent_means(gap, 7) == expected
    assert absent_means(Known(0, "/sys"), 7) == Known(0, "/sys")


def test_only_what_is_known_is_sure() -> None:
    """Neither an unknown nor a known False is sure."""
    flags: list[Evidence[bool]] = [Known(value=True, origin=""), Known(value=False, origin="")]
    assert [is_surely(flag) for flag in flags] == [True, False]
    assert not is_surely(UNKNOWN)


def test_wording_has_the_default_for_an_unknown_only() -> None:
    """A known value is never replaced, not even a falsy one."""
    assert for_wording(UNKNOWN, 7) == 7
    assert for_wording(Known(0, "/sys"), 7) == 0


def test_evidence_cannot_be_changed() -> None:
    """Evidence is immutable."""
    with pytest.raises(FrozenInstanceError):
        ONE.value = 2  # type: ignore[misc]


def test_the_reasons_are_those_of_the_contract() -> None:
    """Machine formats print these words, so the set is closed."""
    assert [why.value for why in Why] == [
        "absent",
        "denied",
        "failed",
        "timed_out",
        "unparsable",
        "not_captured",
        "unsupported",
    ]


def test_what_is_out_of_scope_is_an_unknown_of_its_own_class() -> None:
    """It has the methods of `Unknown`, and never equals one with the same fields."""
    left = OutOfScope("/sys/block/sdb")
    same = Unknown(left.what, left.why, left.detail, left.hint)
    assert left == OutOfScope("/sys/block/sdb") != OutOfScope("/sys/block/sdc")
    assert len({left, OutOfScope("/sys/block/sdb"), same}) == 2
    assert left != same != left
    assert repr(left) == repr(same).replace("Unknown", "OutOfScope", 1)
    assert replace(left, hint="x") == OutOfScope("/sys/block/sdb", hint="x")
    assert pickle.loads(pickle.dumps(left)) == left  # noqa: S301 - written here
    with pytest.raises(FrozenInstanceError):
        left.what = "x"  # type: ignore[misc]
