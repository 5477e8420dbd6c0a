"""How changes are made: each module knows one kind of change, its checks and its rollback.

A rule imports this package and calls, for example, `remedies.options.change_option(fs, …)`. A
module is imported when the first finding needs it (PEP 562): a healthy host loads none.

Here, what the engine adds to remedies: who uses a filesystem and must stop before it is unmounted,
and that a device cannot be opened on this machine. Seen on 6.18: below an overlay, a bind mount in
another namespace or an open file of it, umount and mount both exit with 0, and the superblock
stays as it was, with its old options; over the backing file of a loop device or a swap file umount
fails. The device rules of a cgroup refuse devices in containers, and in some virtual machines:
every program of e2fsprogs then ends with "Operation not permitted".
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from ext4audit import lazily
from ext4audit.evidence import OUTSIDE, Known, Unknown, Why, for_wording
from ext4audit.facts import cached_by_identity
from ext4audit.facts.devices import BlockDevice
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.mount import (
    DeviceNumber,
    FstabEntry,
    Mount,
    below,
    mount_of,
    mounts_by_id,
    propagates_anew,
)
from ext4audit.finding import Disruption, LineEdit, NewMount, Phase, Remedy, Step, Unmount, few

if TYPE_CHECKING:
    from ext4audit.remedies import checking as checking
    from ext4audit.remedies import configuration as configuration
    from ext4audit.remedies import features as features
    from ext4audit.remedies import flags as flags
    from ext4audit.remedies import mkfs as mkfs
    from ext4audit.remedies import mounting as mounting
    from ext4audit.remedies import options as options
    from ext4audit.remedies import remount as remount
    from ext4audit.remedies import superblock_fields as superblock_fields
    from ext4audit.remedies import unmounting as unmounting


def __getattr__(name: str) -> ModuleType:
    """Import a module of this package when it is first used."""
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return import_module(f"{__name__}.{name}")
    except ModuleNotFoundError as error:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from error


PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-")
"""Bytes that `printf` prints as themselves when they are part of its format. They are spelled out:
importing `string` compiles the expressions of its templates."""


def quote(name: str) -> str | None:
    r"""Return one shell word that expands to exactly the bytes of `name`, or None.

    The word itself is printable ASCII only, whatever the name holds: a raw newline or escape
    character in a command would be run, or shown, as something else than the reader sees. What
    is not printable is spelled `"$(printf '\NNN')"`, which dash, bash and busybox ash expand
    alike. None where that is impossible: a NUL byte, a character that no bytes stand for, or a
    newline at the end, which `$()` strips.
    """
    if name.isascii() and name.isprintable():
        return shlex.quote(name)
    if "\0" in name or name.endswith("\n"):
        return None
    try:
        encoded = name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return None
    return f"\"$(printf '{_format(encoded)}')\""


WORD_OF_SHELL = r"""(?:'[^']*'|"(?:[^"\\]|\\.)*"|[^\s'"\\;])+"""
"""A word as `quote` writes it, in a command."""


def unquote(word: str) -> str:
    """Return the name that a word of `quote` stands for."""
    printed = re.fullmatch(r"\"\$\(printf '(.*)'\)\"", word, re.DOTALL)
    if printed is None:
        return shlex.split(word)[0]
    raw = re.sub(rb"\\([0-7]{3})", lambda c: bytes([int(c[1], 8)]), printed[1].encode())
    return raw.decode("utf-8", "surrogateescape")


def in_phase(phase: Phase, commands: Iterable[str]) -> tuple[Step, ...]:
    """Return the commands as steps of one phase."""
    return tuple(Step(phase, command) for command in commands)


def verified(step: Step, *checks: str) -> tuple[Step, ...]:
    """Return a step, the check that it is done, and others."""
    return (step, *in_phase(Phase.VERIFY, (step.done, *checks)))


def mount_table(where: str, column: str) -> str:
    """Return the command that prints a column of findmnt(8) for the topmost mount on a directory.

    `where` is quoted. Without `-f -d backward` it prints the mounts that are hidden as well.
    """
    return f"findmnt -nfd backward -o {column} -M {where}"


def _format(name: bytes) -> str:
    """Spell bytes as a format of printf(1), which takes a leading dash for an option."""
    return "".join(
        chr(byte) if byte in PLAIN and not (index == 0 and byte == ord("-")) else f"\\{byte:03o}"
        for index, byte in enumerate(name)
    )


def with_losses(found: tuple[Remedy, ...], fs: Filesystem, host: Host) -> tuple[Remedy, ...]:
    """Return remedies as `unmounting.with_loss` does, which a healthy host never imports."""
    steps = [step for each in found for step in each.steps]
    unmounts = any(isinstance(step.change, Unmount) for step in steps)
    is_risky = unmounts or any(step.undo_by_unmount for step in steps)
    loses = is_risky and ("/" in fs.mount_points or len(fs.mounts) > 1)
    loses = loses or (unmounts and _is_unseen(fs))
    if not loses and not _may_lose(fs, host):
        return found
    with_loss: Callable[[Remedy, Filesystem, Host], Remedy]
    with_loss = lazily("remedies.unmounting", "with_loss")
    return tuple(with_loss(each, fs, host) for each in found)


def _may_lose(fs: Filesystem, host: Host) -> bool:
    """Whether an unmount may lose something that was seen: a cheap question."""
    stack = for_wording(fs.stack, None)
    on_loop = stack is not None and any(device.loop for device in stack.walk())
    if on_loop or has_errors(fs):
        return True
    table = for_wording(host.mounts, ())
    return any(
        "idmapped" in mount.mount_options or mount.propagates != propagates_anew(mount, table)
        for mount in fs.mounts
    )


def _is_unseen(fs: Filesystem) -> bool:
    """Whether something that an unmount takes away is not known."""
    return isinstance(fs.settings, Unknown) or any(m.user_options is None for m in fs.mounts)


def has_errors(fs: Filesystem) -> bool:
    """Whether the kernel, or the superblock, has errors on record."""
    superblock = for_wording(fs.superblock, None)
    if superblock is not None and superblock.is_marked:
        return True
    return isinstance(fs.errors, Known) and fs.errors.value.errors > 0


def is_writable(fs: Filesystem) -> bool:
    """Whether e2fsprogs can write to what was audited.

    An e2image file holds a copy, and what follows a "?" in the name of an image means options.
    """
    return not any(image.kind == "e2image" or "?" in image.path for image in images(fs))


def images(fs: Filesystem) -> list[BlockDevice]:
    """Return the image file that holds a filesystem, also one in a partition; else nothing."""
    stack = for_wording(fs.stack, None)
    return [stack.image] if stack and stack.image else []


LAYERS = ("lowerdir", "lowerdir+", "datadir+", "upperdir", "workdir")
"""Options of an overlay that name directories; lowerdir names several, with colons."""


def with_users(remedy: Remedy, fs: Filesystem, host: Host) -> Remedy:
    """Return a remedy with sentences on the users of the filesystem and its quotas, if it unmounts.

    Advice is left as it is, and so are remedies for the root, which run from another system.
    """
    unmounts = remedy.disruption is Disruption.UNMOUNT and remedy.steps
    if not unmounts or not fs.alive or "/" in fs.mount_points:
        return remedy
    return remedy._replace(summary=f"{remedy.summary}{users_sentence(fs, host)}{_then_quotas(fs)}")


QUOTA_FILES = frozenset({"usrquota", "grpquota", "usrjquota", "grpjquota", "quota"})


def _then_quotas(fs: Filesystem) -> str:
    """Return the sentence on quotas that no mount turns on again; empty where there are none.

    Those of the feature `quota` are in force from the mount on.
    """
    superblock = for_wording(fs.superblock, None)
    names = {word.partition("=")[0] for mount in fs.mounts for word in mount.super_options}
    if QUOTA_FILES.isdisjoint(names) or (superblock and "quota" in superblock.features):
        return ""
    return " Then turn its quotas on again (quotaon): the unmount turns them off."


def users_sentence(fs: Filesystem, host: Host) -> str:
    """Return the sentence that names the users of a filesystem; empty if none is known."""
    names = few(tuple(users_of(fs, host)))
    return f" First stop everything that uses it: {names}." if names else ""


def users_of(fs: Filesystem, host: Host) -> Iterator[str]:
    """Yield the names of the known users of a mounted filesystem.

    An automount mounts it again as soon as anything looks at it, by the options of its own.
    Swap files, open files and mounts in other namespaces are not among the facts of a host: the
    script of `ext4audit fix` looks for them when it runs.
    """
    mounts = for_wording(host.mounts, ())
    ours = dict.fromkeys(mount.mount_id for mount in fs.mounts)
    around = ((each, mounts_by_id(mounts).get(each.parent_id)) for each in fs.mounts)
    yield from dict.fromkeys(
        f"the automount of {its.mount_point}"
        for each, its in around
        if its and its.fstype == "autofs" and its.mount_point == each.mount_point
    )
    yield from (f"the mount on {place}" for place in fs.mount_points[1:])
    children = (child for own in ours for child in _children(mounts).get(own, ()))
    yield from (
        f"the mount on {each.mount_point}" for each in children if each.mount_id not in ours
    )
    yield from (f"the overlay on {place}" for place in _overlays(mounts).get(fs.device_number, ()))
    yield from _loops(host).get(fs.device_number, ())


@cached_by_identity
def _children(mounts: tuple[Mount, ...]) -> Mapping[int, list[Mount]]:
    """Return the mounts that are mounted on each mount, by its id."""
    found: dict[int, list[Mount]] = {}
    for mount in mounts:
        found.setdefault(mount.parent_id, []).append(mount)
    return found


@cached_by_identity
def _overlays(mounts: tuple[Mount, ...]) -> Mapping[DeviceNumber, list[str]]:
    """Return where overlays with a layer on each device are mounted."""
    found: dict[DeviceNumber, dict[str, None]] = {}
    for mount in mounts:
        if mount.fstype == "overlay":
            for below in filter(None, (mount_of(mounts, path) for path in _layers(mount))):
                found.setdefault(below.device_number, {})[mount.mount_point] = None
    return {number: list(places) for number, places in found.items()}


def _layers(overlay: Mount) -> Iterator[str]:
    """Yield the directories that an overlay is made of."""
    for option in overlay.super_options:
        name, _, value = option.partition("=")
        if name in LAYERS:
            yield from value.split(":")


@cached_by_identity
def _loops(host: Host) -> Mapping[DeviceNumber, list[str]]:
    """Return the loop devices below filesystems, by the device that holds their backing file."""
    found: dict[DeviceNumber, dict[str, None]] = {}
    for fs in (*host.filesystems, *host.lower, *for_wording(host.unmounted, ())):
        stack = for_wording(fs.stack, None)
        for device in stack.walk() if stack else ():
            loop = device.loop
            number = for_wording(loop.backing_device_number, None) if loop else None
            if loop and number:
                name = f"the loop device {device.name} (image {loop.backing_file})"
                found.setdefault(number, {})[name] = None
    return {number: list(names) for number, names in found.items()}


VOLUMES = ("/var/lib/kubelet/pods", "/var/lib/kubelet/plugins", "/var/lib/nomad")
"""The directories where orchestrators mount volumes of workloads."""


def holds_volume(fs: Filesystem) -> bool:
    """Whether an orchestrator mounted it for a workload."""
    return any(below(point, VOLUMES) for point in fs.mount_points)


def mounted_by(fs: Filesystem) -> str:
    """Return what gives a filesystem its options where fstab does not have it."""
    if holds_volume(fs):
        return "the specification of its volume (mountOptions in Kubernetes)"
    return "the unit or script that mounts it"


def with_generator(remedy: Remedy, host: Host) -> Remedy:
    """Return a remedy with the sentence that a program writes the line of fstab it edits, if so."""
    made = _generators(for_wording(host.fstab, ()))
    edits = (step.change for step in remedy.steps if isinstance(step.change, LineEdit))
    by = next((made[edit.line_number] for edit in edits if edit.line_number in made), None)
    if by is None:
        return remedy
    note = f"Change it in the configuration of {by} too, which writes this line of fstab again."
    return remedy._replace(summary=f"{remedy.summary} {note}")


@cached_by_identity
def _generators(entries: tuple[FstabEntry, ...]) -> Mapping[int, str]:
    """Return the programs that write lines of fstab, by the number of the line."""
    lines = (entry.line for entry in entries)
    return {line.line_number: line.generator for line in lines if line.generator}


_ON_DEVICES = r"\b(?:tune2fs|e2fsck|resize2fs|debugfs|mkfs\.ext4)\b"


def with_refusal(remedy: Remedy, fs: Filesystem) -> Remedy:
    """Return a remedy with the sentence that its commands fail here, if they do."""
    primary = fs.primary
    if not isinstance(primary, Unknown) or (primary.why, primary.hint) != (Why.DENIED, OUTSIDE):
        return remedy
    if not any(re.search(_ON_DEVICES, step.command) for step in remedy.steps):
        return remedy
    note = f"{fs.device} cannot be opened here, even by root: {OUTSIDE}."
    return remedy._replace(summary=f"{remedy.summary} {note}")


def with_twin(remedy: Remedy, fs: Filesystem, twin: Filesystem) -> Remedy:
    """Return a remedy without commands, because the mounted `twin` may be the same filesystem."""
    if not remedy.steps:
        return remedy
    note = (
        f"No commands: {twin.device} has the same UUID and is mounted. Where {fs.device} is "
        "another way to the same storage, they would damage it."
    )
    return remedy._replace(summary=f"{remedy.summary} {note}", steps=())


_NOT_ON_BIGALLOC = r"\btune2fs (?:-f )?-O \^has_journal\b|sys/fs/ext4/.* && resize2fs\b"

CORRECTLY = "correctly with the feature bigalloc."


def with_bigalloc(remedy: Remedy, fs: Filesystem) -> Remedy:
    """Return a remedy without commands that e2fsprogs cannot run on clusters (seen with 1.47.0).

    Where tune2fs removes a journal, wrong counts of free blocks are left; resize2fs refuses a
    filesystem that is not mounted as not fully tested. A rollback that would do so is left out.
    """
    superblock = for_wording(fs.superblock, None)
    if superblock is None or "bigalloc" not in superblock.features:
        return remedy
    if any(re.search(_NOT_ON_BIGALLOC, each.command) for each in remedy.steps):
        note = f"No commands: e2fsprogs 1.47.0 does not do this {CORRECTLY}"
        return remedy._replace(summary=f"{remedy.summary} {note}", steps=())
    if any(re.search(_NOT_ON_BIGALLOC, each.rollback) for each in remedy.steps):
        note = f"There is no rollback: e2fsprogs 1.47.0 does not take this back {CORRECTLY}"
        steps = tuple(each._replace(undo="", undo_by_unmount="") for each in remedy.steps)
        return remedy._replace(summary=f"{remedy.summary} {note}", steps=steps)
    return remedy


_WRITES = re.compile(r"\btune2fs (?=-[^lf])")
MMP_NOTE = " tune2fs -f: because of the feature mmp it takes a mounted filesystem for a used one."


def with_mmp(remedy: Remedy, fs: Filesystem) -> Remedy:
    """Return a remedy whose tune2fs writes to a mounted filesystem with the feature mmp.

    tune2fs refuses it without -f (1.42 to 1.47), which leaves the check of another host's mount
    out as well: the commands that need it test that the filesystem is mounted here.
    """
    superblock = for_wording(fs.superblock, None)
    if not fs.alive or superblock is None or "mmp" not in superblock.features:
        return remedy
    held = f"test -e {quote(f'/sys/fs/ext4/{fs.name}')} && tune2fs -f "
    steps, mounted = [], True
    for step in remedy.steps:
        mounted = isinstance(step.change, NewMount) or (
            mounted and not isinstance(step.change, Unmount)
        )
        command, undo = (
            _WRITES.sub(held, each) if mounted and not re.search(_UNMOUNTED, each) else each
            for each in (step.command, step.undo)
        )
        steps.append(step._replace(command=command, undo=undo))
    if tuple(steps) == remedy.steps:
        return remedy
    return remedy._replace(steps=tuple(steps), summary=f"{remedy.summary}{MMP_NOTE}")


_UNMOUNTED = r"test ! -e /sys/fs/ext4/"
"""What commands begin with that write to an unmounted filesystem."""
