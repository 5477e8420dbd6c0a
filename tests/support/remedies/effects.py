"""A model of what the commands of a remedy do to the options of a filesystem; none is run.

The commands are parsed as a shell and mount(8) would parse them: a remount that names device and
directory ignores fstab, keeps each option of ext4 and sets all flags anew; a new mount starts from
the options in the superblock.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from ext4audit.facts.mount import ATIME_OPTIONS, CLEARED, MOUNT_FLAGS, SUPERBLOCK_FLAGS
from ext4audit.facts.options import all_options, recognize
from ext4audit.finding import LineEdit, Phase, Remedy

RELEVANT_COMMANDS = re.compile(r"\b(mount|umount|sed -i|tune2fs|debugfs)\b")
READ_ONLY_COMMANDS = re.compile(r"tune2fs -l |findmnt |grep |test ")
BITS = {word: token for spec in all_options() for word, token in spec.superblock_bits.items()}
ATIME = "access times"


@dataclass(frozen=True)
class State:
    """The active options (`live`), and as words the three places that a new mount reads.

    `kernel` has the kernel's default tokens by option name; `live` has flags of mount(8), too.
    """

    kernel: Mapping[str, str]
    live: Mapping[str, str]
    fstab: tuple[str, ...] = ()
    bits: tuple[str, ...] = ()
    string: str = ""
    errors: str = "continue"

    @property
    def bit_tokens(self) -> tuple[str, ...]:
        """The option tokens of the default mount option bits of the superblock."""
        return tuple(BITS[word] for word in self.bits if word in BITS)

    @cached_property
    def stored(self) -> dict[str, str]:
        """The options of a mount without options, by name."""
        fields = (f"errors={self.errors}", *self.bit_tokens, *self.string.split(","))
        return {**self.kernel, **meanings(fields)}

    @cached_property
    def next(self) -> dict[str, str]:
        """The options after the next boot, by name."""
        return {**self.stored, ATIME: "relatime", **meanings(self.fstab)}


def meanings(words: Iterable[str]) -> dict[str, str]:
    """Return the token that words set for each option; the last word wins."""
    reported: dict[str, str] = {}
    for word in filter(None, words):
        known = recognize(word)
        if known:
            reported[known[0].name] = known[1]
        elif word in ATIME_OPTIONS:
            reported[ATIME] = ATIME_OPTIONS[word]
        elif word in MOUNT_FLAGS:
            reported[word] = word
        reported.pop(CLEARED.get(word, ""), None)
    return reported


def effect(remedy: Remedy, state: State) -> State:
    """Return the state after the commands of a remedy."""
    for step in remedy.steps:
        if step.phase in {Phase.IMMEDIATE, Phase.PERSISTENT}:
            if isinstance(step.change, LineEdit):
                state = _edited(step.change, state)
            else:
                state = _run(step.command, state)
    return state


def _run(command: str, state: State) -> State:
    """Return the state after one command; its leading guard is assumed to succeed."""
    command = re.sub(r"^test ! -e \S+ && ", "", command)
    words = _words(command)
    if words[0] == "mount":
        return _mounted(words[1:], state)
    if words[:2] == ["debugfs", "-w"]:
        return replace(state, string=words[3].split()[2])
    if words[0] == "tune2fs" and words[1] != "-l":
        return _tuned(words[1], words[2], state)
    assert (
        READ_ONLY_COMMANDS.match(command)
        or not RELEVANT_COMMANDS.match(command)
        or words[0] == "umount"
    ), command
    return state


@lru_cache(maxsize=4096)
def _words(command: str) -> list[str]:
    return shlex.split(command)


def _edited(edit: LineEdit, state: State) -> State:
    """Return the state after an edit of the options in a line of fstab."""
    return replace(state, fstab=tuple(re.split(r"[ \t]+", edit.after)[3].split(",")))


def _mounted(words: Sequence[str], state: State) -> State:
    reported = words[words.index("-o") + 1].split(",") if "-o" in words else []
    if "remount" not in reported:
        # With the directory alone, mount(8) uses the options of fstab.
        by_fstab = () if "-t" in words else state.fstab
        before = {**state.stored, ATIME: "relatime", **meanings(by_fstab)}
        return replace(state, live={**before, **meanings(reported)})
    assert len(words) == len(("-o", "options", "device", "directory")), words
    anew = MOUNT_FLAGS - SUPERBLOCK_FLAGS if "bind" in reported else MOUNT_FLAGS
    kept = {name: token for name, token in state.live.items() if name not in anew}
    return replace(state, live={**kept, **meanings(reported)})


def _tuned(option: str, value: str, state: State) -> State:
    if option == "-o":
        gone = {word[1:] for word in value.split(",") if word.startswith("^")}
        new = [word for word in value.split(",") if not word.startswith("^")]
        return replace(state, bits=(*(b for b in state.bits if b not in gone), *new))
    if option == "-e":
        return replace(state, errors=value)
    if option == "-E" and value.startswith("mount_opts="):
        return replace(state, string=value.partition("=")[2])
    return state
