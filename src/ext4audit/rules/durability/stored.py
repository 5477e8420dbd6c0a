"""What a superblock will put in force at the next mount, and how to take it out before.

For filesystems that are not mounted, and for images: there tune2fs is enough, and nothing is to
be remounted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ext4audit.evidence import Known
from ext4audit.facts.host import Filesystem
from ext4audit.facts.option_table import OPTIONS, recognize
from ext4audit.facts.options import Provenance
from ext4audit.facts.superblock import Superblock
from ext4audit.finding import Phase, Step
from ext4audit.remedies.shell import quote
from ext4audit.remedies.superblock import superblock_change, verify_command


@dataclass(frozen=True, slots=True)
class StoredOption:
    """An option that a superblock sets: its name, its token, and in which of the two places."""

    name: str
    token: str
    setter: Provenance


def stored_options(superblock: Superblock) -> tuple[StoredOption, ...]:
    """Return the options that a mount without options takes from the superblock.

    The string is applied after the bits and wins (ext4_fill_super(), Linux 6.12). Without a
    journal there is no mode of data.
    """
    found = {}
    for spec in OPTIONS:
        for word, token in spec.superblock_bits.items():
            if word in superblock.default_mount_options:
                found[spec.name] = StoredOption(spec.name, token, Provenance.SUPERBLOCK_BITS)
    words = filter(None, superblock.mount_option_string.split(","))
    for spec, token in filter(None, map(recognize, words)):
        found[spec.name] = StoredOption(spec.name, token, Provenance.SUPERBLOCK_STRING)
    if not superblock.has_journal:
        found.pop("data", None)
    return tuple(found.values())


def tune_steps(fs: Filesystem, wanted: Mapping[str, str]) -> tuple[Step, ...]:
    """Return the commands that clear what the superblock sets against the `wanted` tokens.

    Empty where no program can write to it: an e2image file holds a copy, and e2fsprogs take what
    follows a question mark in a name for options of their own.
    """
    change = superblock_change(fs, wanted)
    device = quote(fs.device)
    if device is None or not change.held or not _is_writable(fs):
        return ()
    words = change.words
    do = [_tune(f"-o {','.join(f'^{word}' for word in words)}", device)] if words else []
    undo = [_tune(f"-o {','.join(words)}", device)] if words else []
    if change.string is not None:
        before, after = change.string
        do.append(_write_string(after, device))
        undo.insert(0, _write_string(before, device))
    return (
        *_steps(Phase.PERSISTENT, do),
        *_steps(Phase.VERIFY, [verify_command(fs, change)]),
        *_steps(Phase.ROLLBACK, undo),
    )


def _tune(options: str, device: str) -> str:
    return f"tune2fs {options} {device}"


def _write_string(string: str, device: str) -> str:
    """Return the command that writes s_mount_opts: a comma ends the argument of tune2fs 1.47."""
    if "," not in string:
        return _tune(f"-E mount_opts={string}", device)
    return f"debugfs -w -R 'set_super_value mount_opts {string}' {device}"


def _is_writable(fs: Filesystem) -> bool:
    devices = tuple(fs.stack.value.walk()) if isinstance(fs.stack, Known) else ()
    images = [device for device in devices if device.kind in {"image", "e2image"}]
    return not any(image.kind == "e2image" or "?" in image.path for image in images)


def _steps(phase: Phase, commands: list[str]) -> Iterator[Step]:
    return (Step(phase, command) for command in commands)
