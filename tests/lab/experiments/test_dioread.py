"""dioread_nolock without delalloc on kernels that have the guard."""

from __future__ import annotations

from lab.conftest import Guest


def test_the_guard_keeps_extents_whole_although_both_words_are_shown(any_guest: Guest) -> None:
    """The options file lists both options, 32 MiB stay in few extents, and PRF001 passes.

    Without the guard each of the 8192 pages would be an extent until writeback.
    """
    found = any_guest["dioread_without_delalloc"]
    print(
        f"\n{found['release']}: shows {' '.join(found['shown'])}; {found['pages']} pages in "
        f"{found['extents_before_writeback']} extents; PRF001: {found['outcome']}"
    )
    assert found["release"] == any_guest.release
    assert found["shown"] == ["dioread_nolock", "nodelalloc"]
    assert found["pages"] == 8192
    assert found["extents_before_writeback"] <= 8
    assert found["extents"] <= 8
    assert found["outcome"] == "pass"
