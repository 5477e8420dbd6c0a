"""The grammar of mount options, compared with what each booted kernel accepts."""

from __future__ import annotations

import pytest

from ext4audit.facts.options import Handling, handling_of, is_refused_for
from lab.conftest import Guest
from support.builders import kernel


@pytest.mark.parametrize("fstype", ["ext4", "ext3", "ext2"])
def test_kernel_treats_each_option_as_the_grammar_says(any_guest: Guest, fstype: str) -> None:
    """Accepted and ignored options mount, refused ones do not; the rest are not known."""
    upstream = kernel(any_guest.release).upstream
    wrong = []
    for word, error in any_guest["option_grammar"][fstype].items():
        fate = handling_of(word, upstream).handling
        refused = fate is Handling.REFUSED or is_refused_for(word, fstype)
        if fate is not Handling.NOT_KNOWN and refused is not bool(error):
            wrong.append((word, fate, error))
    assert not wrong, str(wrong)
