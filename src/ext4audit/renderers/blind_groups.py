"""What could not be judged on a host, each reason once, with all that it keeps from being judged.

An account without rights hides the same thing from twenty rules: twenty entries on each of a
thousand hosts are more than a reader of alerts takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ext4audit.renderers.escape import visible
from ext4audit.renderers.page import Audited
from ext4audit.renderers.rows import Blind, blind_spots
from ext4audit.renderers.words import listed


class BlindGroup(NamedTuple):
    """One sentence about a host; `is_error` says that it is no hole but a failure.

    `key` is what it is known by on its host.
    """

    host: str
    key: str
    sentence: str
    is_error: bool


def blind_groups(host: Audited, name: str) -> tuple[BlindGroup, ...]:
    """Return what could not be judged; of a host without a report, why there is none."""
    if host.report is None:
        sentence = visible(f"{name} could not be read: {host.error or 'no reason is known'}")
        return (BlindGroup(name, "unread", sentence, is_error=True),)
    groups: dict[tuple[str, str], list[Blind]] = {}
    for blind in blind_spots(name, host.report):
        groups.setdefault((blind.words, blind.hint), []).append(blind)
    return tuple(_group(name, words, hint, met) for (words, hint), met in groups.items())


def _group(name: str, words: str, hint: str, met: Sequence[Blind]) -> BlindGroup:
    rules = dict.fromkeys(blind.rule.code for blind in met if blind.rule)
    places = dict.fromkeys(blind.where for blind in met if blind.rule)
    affects = f", for {listed([*rules])} on {listed([*places])}" if rules else ""
    advice = f" ({hint})" if hint else ""
    is_error = any(blind.error is not None for blind in met)
    sentence = visible(f"{name}: not determined{affects}: {words}{advice}")
    return BlindGroup(name, f"{words}\n{hint}", sentence, is_error)
