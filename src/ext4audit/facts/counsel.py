"""What can be done about the spread of a filesystem's metadata, and what cannot."""

from __future__ import annotations

from ext4audit.records import dataclass


@dataclass(frozen=True, slots=True)
class Advice:
    """Options for mke2fs that make the bitmaps even on a stripe, and Jain's index with them.

    `blocks_per_group_option` is the value for -g, which counts clusters with bigalloc.
    `flex_bg_groups` is the one for -G. `is_default` where mke2fs makes them so without -g.
    """

    blocks_per_group_option: int
    flex_bg_groups: int
    evenness: float
    is_default: bool


@dataclass(frozen=True, slots=True)
class Growth:
    """A number of members that makes the present bitmaps even, and Jain's index with it."""

    members: int
    evenness: float


@dataclass(frozen=True, slots=True)
class Counsel:
    """The whole advice for a filesystem that exists, as sentences to print.

    `sentence` says how many members serve it. `curable` is what -g cures and `incurable` what
    it does not. `in_place` and `recreate` are the two remedies, None where there is none.
    `no_help` lists what is often tried and changes nothing, `mitigations` what makes the hot
    writes fewer and leaves the layout as it is.
    """

    sentence: str
    is_even: bool
    curable: str
    incurable: str
    advice: Advice | None
    growth: Growth | None
    recreate: str | None
    in_place: str | None
    no_help: tuple[str, ...]
    mitigations: tuple[str, ...]
