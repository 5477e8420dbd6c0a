"""Put ext4 mount options into a wanted state, now and persistently, with rollback."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ext4audit.evidence import Known
from ext4audit.facts.host import Filesystem, option_of
from ext4audit.facts.mount import FstabLine, Mount
from ext4audit.facts.option_table import recognize, spec_named
from ext4audit.facts.options import Provenance
from ext4audit.finding import Disruption, Phase, Step
from ext4audit.remedies import in_phase, quote
from ext4audit.remedies.default_options import (
    string_steps,
    superblock_change,
    superblock_steps,
    verify_command,
)
from ext4audit.remedies.fstab import edit_options
from ext4audit.remedies.remount import mount_again, remount_step, typed, usable_mount

BINDS = frozenset({"bind", "rbind"})


def _lasting(fs: Filesystem, mount: Mount, wanted: Mapping[str, str]) -> Iterator[Step]:
    """Yield the steps that make the wanted tokens persistent."""
    yield from fstab_edits(fs, wanted)
    change = superblock_change(fs, wanted)
    yield from superblock_steps(fs, change)
    yield from string_steps(fs, change, mount, mount_again(fs, mount, (), wanted))


def superblock_checks(fs: Filesystem, wanted: Mapping[str, str]) -> Iterator[str]:
    """Yield the command that fails while the superblock holds another state."""
    change = superblock_change(fs, wanted)
    if change.held:
        yield verify_command(fs, change)


def fstab_edits(fs: Filesystem, wanted: Mapping[str, str]) -> Iterator[Step]:
    """Yield the edits of the entries that mount the device, bind mounts left out."""
    entries = fs.fstab.value if isinstance(fs.fstab, Known) else ()
    for entry in entries:
        if BINDS.isdisjoint(entry.line.options):
            edit = _edit(fs, entry.line, wanted)
            if edit is not None:
                yield edit


def _edit(fs: Filesystem, line: FstabLine, wanted: Mapping[str, str]) -> Step | None:
    """Return the edit of one line: other states out, wanted ones in unless they are defaults."""
    present = [known for known in map(recognize, line.options) if known is not None]
    drop = [token for spec, token in present if wanted.get(spec.name, token) != token]
    add = [typed(token) for name, token in wanted.items() if not is_default(fs, name, token)]
    return edit_options(line, drop, add)


def is_default(fs: Filesystem, name: str, token: str) -> bool:
    """Whether a mount without options has the token once the superblock is corrected."""
    option = option_of(fs, name)
    if option is not None and option.baseline == token:
        return True
    layers = option.layers if option is not None else ()
    by_kernel = [layer.token for layer in layers if layer.provenance is Provenance.KERNEL_DEFAULT]
    defaults = {default for _, default in spec_named(name).defaults}
    return token in by_kernel or (not by_kernel and defaults == {token})


LISTED_WHEN_SET = frozenset({"noauto_da_alloc"})
"""Negative options that are bits of their own: every kernel's option listing shows them."""


def change_option(
    fs: Filesystem, name: str, wanted: str, *, remount: bool = True
) -> tuple[Step, ...]:
    """Return the steps that put the option `name` into the state `wanted`.

    `wanted` is a token of the option table: "barrier", "nodioread_nolock", "data=ordered". See
    `change_options`.
    """
    return change_options(fs, {name: wanted}, remount=remount)


def change_options(
    fs: Filesystem, wanted: Mapping[str, str], *, remount: bool = True
) -> tuple[Step, ...]:
    """Return the steps that put several options, by name, into the wanted states at once.

    Persistent steps correct what set an option: the device's fstab entries, the superblock's
    bits, its string. Where none of these sets it, no step can make the change persistent. The
    steps are in the order to run them. `remount=False` omits the change of the running mount; a
    change of `data=` never has it, because every kernel refuses it by remount. What only the next
    mount puts in force is not verified. Empty where no mount of the whole filesystem is
    in this namespace, or where a name cannot be quoted for a shell.
    """
    mount = usable_mount(fs)
    if mount is None or None in (quote(mount.mount_point), quote(fs.device)):
        return ()
    tokens = {name: _canonical(token) for name, token in wanted.items()}
    live = _live(fs, mount, tokens) if remount else ()
    changed_now = {n: t for n, t in tokens.items() if remount and n != "data"}
    checks = [*in_force(fs, changed_now), *superblock_checks(fs, tokens)]
    return (*live, *_lasting(fs, mount, tokens), *in_phase(Phase.VERIFY, checks))


def disruption(steps: tuple[Step, ...]) -> Disruption:
    """Return what must be stopped to apply the steps; their rollback may need more."""
    if any(step.command.startswith("umount ") for step in steps):
        return Disruption.UNMOUNT
    if any(step.phase is Phase.IMMEDIATE for step in steps):
        return Disruption.REMOUNT
    return Disruption.ONLINE


def not_persistent(steps: tuple[Step, ...]) -> str:
    """Return the sentence for steps of which none is persistent; else empty."""
    if not steps or any(step.phase is Phase.PERSISTENT for step in steps):
        return ""
    return " It has no fstab entry: also correct the unit or script that mounts it."


def _live(fs: Filesystem, mount: Mount, tokens: Mapping[str, str]) -> Iterator[Step]:
    """Yield the remount that puts the tokens in force, where they are not."""
    before = {name: option.token for name in tokens if (option := option_of(fs, name))}
    new = {n: t for n, t in tokens.items() if n != "data" and before.get(n) != t}
    old = {name: before[name] for name in new if name in before}
    if new:
        after, back = ([typed(token) for token in each.values()] for each in (new, old))
        step = remount_step(mount, after, back, tuple(in_force(fs, new)))
        yield step._replace(undo=_back(fs, mount, old, step.undo))


def _back(fs: Filesystem, mount: Mount, old: Mapping[str, str], command: str) -> str:
    """Return the command that restores old tokens; a remount may refuse nodelalloc."""
    if old.get("delalloc") != "nodelalloc":
        return command
    again = mount_again(fs, mount, [typed(token) for token in old.values()], old)
    return f"{command} || {{ umount {quote(mount.mount_point)} && {again}; }}"


def in_force(fs: Filesystem, tokens: Mapping[str, str]) -> Iterator[str]:
    """Yield the commands that fail while a token, by option name, is not in force.

    Before 4.17 the option listing shows only the bits that are set, so that a state which is a
    cleared bit is verified by the absence of its opposite, on every kernel.
    """
    path = quote(f"/proc/fs/ext4/{fs.name}/options")
    for name, written in tokens.items():
        token, spec = _canonical(written), spec_named(name)
        opposite = spec.opposite(token)
        if opposite and (
            opposite in LISTED_WHEN_SET or (token == spec.off and token not in LISTED_WHEN_SET)
        ):
            yield f"grep -q . {path} && ! grep -qx {opposite} {path}"
        else:
            yield f"grep -qx {quote(token)} {path}"


def _canonical(token: str) -> str:
    """Return the table's spelling of a token."""
    known = recognize(token)
    return known[1] if known else token
