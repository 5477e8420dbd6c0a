from __future__ import annotations

import pytest

from ext4audit.evidence import Unknown, Why
from ext4audit.finding import Disruption, Phase, Remedy
from ext4audit.renderers.words import (
    DISRUPTION_WORDS,
    PHASE_WORDS,
    WHY_WORDS,
    binary_size,
    counted,
    disruption_words,
    listed,
    why_words,
)


@pytest.mark.parametrize(
    ("size_bytes", "words"),
    [
        (0, "0 bytes"),
        (512, "512 bytes"),
        (4096, "4 KiB"),
        (524288, "512 KiB"),
        (1 << 20, "1 MiB"),
        (1536, "1536 bytes"),
        (1 << 60, "1024 PiB"),
    ],
)
def test_sizes_are_whole_numbers_of_the_largest_unit(size_bytes: int, words: str) -> None:
    """A size is exact: the largest binary unit that leaves a whole number."""
    assert binary_size(size_bytes) == words


@pytest.mark.parametrize(("number", "words"), [(0, "0 disks"), (1, "1 disk"), (12, "12 disks")])
def test_nouns_follow_their_number(number: int, words: str) -> None:
    """One is singular, all else plural."""
    assert counted(number, "disk") == words


@pytest.mark.parametrize(
    ("limit", "words"), [(None, "a, b, c"), (3, "a, b, c"), (2, "a, b and 1 more")]
)
def test_long_lists_say_how_much_more_there_is(limit: int | None, words: str) -> None:
    """Names beyond the limit are counted, never dropped."""
    assert listed(("a", "b", "c"), limit) == words


@pytest.mark.parametrize(
    ("disruption", "destructive", "words"),
    [
        (Disruption.ONLINE, False, "online"),
        (Disruption.REMOUNT, False, "needs a remount"),
        (Disruption.UNMOUNT, False, "needs an unmount"),
        (Disruption.REBOOT, False, "needs a reboot"),
        (Disruption.RECREATE, True, "destroys and recreates the filesystem"),
        (Disruption.UNMOUNT, True, "needs an unmount, destroys data"),
    ],
)
def test_disruption_is_said_in_plain_words(
    disruption: Disruption, destructive: bool, words: str
) -> None:
    """A remedy says what it stops, and whether it destroys data."""
    assert disruption_words(Remedy("x", disruption, destructive=destructive)) == words


@pytest.mark.parametrize(
    ("why", "detail", "words"),
    [
        (Why.DENIED, "Permission denied", "Permission denied"),
        (Why.DENIED, "", "no permission"),
        (Why.TIMED_OUT, "after 10 s", "timed out: after 10 s"),
        (Why.NOT_CAPTURED, "", "not captured"),
        (Why.UNPARSABLE, "ValueError: abc", "not understood: ValueError: abc"),
    ],
)
def test_reasons_keep_the_words_of_the_host(why: Why, detail: str, words: str) -> None:
    """The host's own words are shown, after ours where they alone do not say it."""
    assert why_words(Unknown("x", why, detail)) == words


def test_every_closed_set_has_its_words() -> None:
    """No disruption, phase or reason is without a word."""
    assert set(DISRUPTION_WORDS) == set(Disruption)
    assert set(PHASE_WORDS) == set(Phase)
    assert set(WHY_WORDS) == set(Why)
