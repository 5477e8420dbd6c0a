"""Change the mount options that a superblock itself holds: its bits, and its string."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ext4audit.evidence import Known
from ext4audit.facts.host import Filesystem
from ext4audit.facts.option_table import recognize, spec_named
from ext4audit.facts.options import EffectiveOption, Provenance
from ext4audit.remedies.shell import quote

SAFE_STRING = re.compile(r"[A-Za-z0-9_=.:/,-]*")
"""What may go into a request of debugfs, which has a grammar of its own."""


@dataclass(frozen=True, slots=True)
class SuperblockChange:
    """What must change in a superblock so that a mount without options has the wanted ones.

    `words` of the bit field are cleared. `string` is s_mount_opts before and after. `unseen`
    are tokens in force of which it is not known which of the two holds them. `held` are all
    tokens that are to disappear.
    """

    words: tuple[str, ...]
    string: tuple[str, str] | None
    unseen: tuple[str, ...]
    held: tuple[str, ...]


def superblock_change(fs: Filesystem, wanted: Mapping[str, str]) -> SuperblockChange:
    """Find what in the superblock speaks against the `wanted` tokens, by option name."""
    words = dict(_words(fs, wanted))
    string = _string(fs, wanted)
    unseen = tuple(_unseen(fs, wanted))
    known = filter(None, map(recognize, string[0].split(","))) if string else ()
    dropped = [token for _, token in known if _against(token, wanted)]
    held = tuple(dict.fromkeys((*words.values(), *dropped, *unseen)))
    return SuperblockChange(tuple(words), string, unseen, held)


def apply_commands(
    fs: Filesystem, change: SuperblockChange, where: str, again: str
) -> Iterator[str]:
    """Yield the commands that clear bits and string; they take effect at the next mount.

    All but the writing of a list are allowed on a mounted filesystem. `where` is its mount
    point as a shell word, `again` the command that mounts it again.
    """
    device = quote(fs.device)
    if change.words:
        yield f"tune2fs -o {','.join(f'^{word}' for word in change.words)} {device}"
    if change.string:
        yield from _write_string(fs, change.string[1], where, again)
    if change.unseen:
        yield f"tune2fs -l {device} | grep -i 'mount options:'"
    for token in change.unseen:
        only = f"grep -qxE 'Mount options: +({_spellings(token)})'"
        clear = f"tune2fs -E mount_opts= {device}"
        yield f"if tune2fs -l {device} | {only}; then {clear}; fi"


def undo_commands(
    fs: Filesystem, change: SuperblockChange, where: str, again: str
) -> Iterator[str]:
    """Yield the commands that bring back what `apply_commands` cleared."""
    device = quote(fs.device)
    for token in change.unseen:
        if not _words_of(token):
            some = f"tune2fs -l {device} | grep -q '^Mount options:'"
            yield f"{some} || tune2fs -E mount_opts={token} {device}"
    if change.string:
        yield from _write_string(fs, change.string[0], where, again)
    if change.words:
        yield f"tune2fs -o {','.join(change.words)} {device}"


def verify_command(fs: Filesystem, change: SuperblockChange) -> str:
    """Return the command that fails while the superblock still holds what is not wanted."""
    spellings = "|".join(_spellings(token) for token in change.held)
    lines = f"tune2fs -l {quote(fs.device)} | grep -iE '^(default )?mount options:'"
    return f"! {lines} | grep -qwE '{spellings}'"


def _write_string(fs: Filesystem, string: str, where: str, again: str) -> Iterator[str]:
    """Yield the commands that write s_mount_opts.

    tune2fs 1.47.0 cannot write a list: the comma ends its argument. debugfs can, but never on
    a live superblock, which another mount namespace may still hold after the unmount.
    """
    device = quote(fs.device)
    if "," not in string:
        yield f"tune2fs -E mount_opts={string} {device}"
        return
    write = f"debugfs -w -R 'set_super_value mount_opts {string}' {device}"
    yield f"umount {where}"
    yield f"test ! -e {quote(f'/sys/fs/ext4/{fs.name}')} && {write}"
    yield again


def _words(fs: Filesystem, wanted: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the words of the bit field that must be cleared, with what they mean."""
    present = fs.superblock.value.default_mount_options if isinstance(fs.superblock, Known) else ()
    for name, token in wanted.items():
        for word, meaning in spec_named(name).superblock_bits.items():
            if meaning != token and (word in present or _set_by_bits(fs, name, meaning)):
                yield word, meaning


def _set_by_bits(fs: Filesystem, name: str, token: str) -> bool:
    """Whether the options say that the bit field (or what may be it) gives `token`."""
    option = _option(fs, name)
    if option is None:
        return False
    layers = [(layer.provenance, layer.token) for layer in option.layers]
    said = {*layers, (option.set_by, option.token)}
    return bool(said & {(Provenance.SUPERBLOCK_BITS, token), (Provenance.SUPERBLOCK, token)})


def _string(fs: Filesystem, wanted: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the string as it is and without what is not wanted, None if nothing is to change."""
    before = fs.superblock.value.mount_option_string if isinstance(fs.superblock, Known) else ""
    after = ",".join(word for word in before.split(",") if not _against(word, wanted))
    return (before, after) if after != before and SAFE_STRING.fullmatch(before) else None


def _unseen(fs: Filesystem, wanted: Mapping[str, str]) -> Iterator[str]:
    """Yield the tokens that the superblock sets while its string could not be read."""
    if isinstance(fs.superblock, Known):
        return
    holders = {Provenance.SUPERBLOCK, Provenance.SUPERBLOCK_STRING}
    for option, token in ((_option(fs, name), token) for name, token in wanted.items()):
        if option is None or option.token == token or not SAFE_STRING.fullmatch(option.token):
            continue
        if holders & {option.set_by, *(layer.provenance for layer in option.layers)}:
            yield option.token


def _option(fs: Filesystem, name: str) -> EffectiveOption | None:
    return fs.options.value.find(name) if isinstance(fs.options, Known) else None


def _against(word: str, wanted: Mapping[str, str]) -> bool:
    """Whether a word of the string is another state of a wanted option."""
    known = recognize(word)
    return known is not None and wanted.get(known[0].name, known[1]) != known[1]


def _words_of(token: str) -> tuple[str, ...]:
    """Return the words of the bit field that mean `token`."""
    known = recognize(token)
    return tuple(w for w, t in known[0].superblock_bits.items() if t == token) if known else ()


def _spellings(token: str) -> str:
    """Return an expression for all spellings of a token, in the bit field and in the string."""
    known = recognize(token)
    aliases = [a for a, t in known[0].aliases.items() if t == token] if known else []
    return "|".join(dict.fromkeys((token, *aliases, *_words_of(token))))
