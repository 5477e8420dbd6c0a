"""What a refused word in the superblock's option string voids, on each booted kernel."""

from __future__ import annotations

from ext4audit.facts.options import words_of_string
from lab.conftest import Guest
from support.builders import kernel, superblock

FIRST, LAST = "nodelalloc", "nobarrier"
"""The options of the string before and after the word."""


def test_a_refused_word_voids_what_this_kernel_does_not_apply(any_guest: Guest) -> None:
    """The options file lists the states that the applied words set, and no others of the string."""
    upstream = kernel(any_guest.release).upstream
    for word, listed in any_guest["superblock_string"]["strings"].items():
        stored = superblock(mount_option_string=f"{FIRST},{word},{LAST}")
        applied = words_of_string(stored, upstream, "ext4", listed).applied
        assert (word, {FIRST, LAST} & set(listed)) == (word, {FIRST, LAST} & set(applied))


def test_journal_data_turns_off_delayed_allocation_without_a_journal(any_guest: Guest) -> None:
    """The kernel forgets the mode, but not what the mode implies."""
    listed = any_guest["superblock_string"]["journal_data"]
    assert {"nodelalloc", "nodioread_nolock"} <= set(listed)
    assert not any(token.startswith("data=") for token in listed)
