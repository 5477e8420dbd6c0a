"""The measurements of a filesystem by `ext4audit probe`, and their verdicts on rules."""

from enum import Enum
from typing import NamedTuple, TypeAlias

Number: TypeAlias = int | float | None


class ProbeVerdict(Enum):
    """Whether a measurement shows the defect of a rule.

    INCONCLUSIVE means that the measurement proves neither.
    """

    HEALTHY = "healthy"
    AFFECTED = "affected"
    INCONCLUSIVE = "inconclusive"


class Figure(NamedTuple):
    """A measured number; its name ends with the unit. The value is None if it was not measured."""

    name: str
    value: Number


class MemberFigures(NamedTuple):
    """The I/O of one device: requests, bytes and milliseconds from /sys/block/*/stat.

    `share` is the device's share of all members' write requests, `predicted_share` the share that
    the layout engine predicts for metadata; None if nothing was written or predicted.
    """

    name: str
    writes: int
    written_bytes: int
    flushes: int | None
    write_wait_ms: float | None
    flush_wait_ms: float | None
    share: float | None = None
    predicted_share: float | None = None


class Measurement(NamedTuple):
    """The result of one probe. `healthy` describes the result on a healthy filesystem."""

    probe: str
    rule: str
    verdict: ProbeVerdict
    why: str
    healthy: str
    figures: tuple[Figure, ...] = ()
    members: tuple[MemberFigures, ...] = ()


class Skipped(NamedTuple):
    """A requested probe that did not run, with the reason."""

    probe: str
    rule: str
    why: str


class MeasuredFilesystem(NamedTuple):
    """The measured filesystem, as a later scan recognizes it; that requires its UUID.

    `options` are the tokens in force by option name ("barrier": "nobarrier"), as far as they were
    known: a measurement does not apply to other options or another kernel release.
    """

    uuid: str
    device: str
    kernel_release: str
    options: tuple[tuple[str, str], ...] = ()


class ProbeRun(NamedTuple):
    """One run of `ext4audit probe`. `mode` is "probe", or "observe", which writes nothing.

    `taken_at` is RFC 3339 in UTC. `boot_id` is /proc/sys/kernel/random/boot_id, empty if it cannot
    be read. `written_bytes` counts the bytes passed to the filesystem.
    """

    mode: str
    taken_at: str
    host: str
    boot_id: str
    directory: str
    filesystem: MeasuredFilesystem
    seconds: float
    written_bytes: int
    results: tuple[Measurement, ...] = ()
    skipped: tuple[Skipped, ...] = ()
