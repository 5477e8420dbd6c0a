"""Measurements of a filesystem by `ext4audit probe`, and what their verdicts mean for rules."""

from enum import Enum
from typing import NamedTuple, TypeAlias

Number: TypeAlias = int | float | None


class ProbeVerdict(Enum):
    """What a measurement shows of the defect of a rule.

    INCONCLUSIVE: something was measured, and it proves neither.
    """

    HEALTHY = "healthy"
    AFFECTED = "affected"
    INCONCLUSIVE = "inconclusive"


class Figure(NamedTuple):
    """A measured number; its name ends with the unit. None is a number that was not measured."""

    name: str
    value: Number


class MemberFigures(NamedTuple):
    """What one device was asked to do: requests, bytes and milliseconds of /sys/block/*/stat.

    `share` is the part of the members' write requests, `predicted_share` the one that the layout
    engine predicts for metadata; None where nothing was written, or nothing is predicted.
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
    """The result of one probe. `healthy` is what a healthy filesystem measures, in words."""

    probe: str
    rule: str
    verdict: ProbeVerdict
    why: str
    healthy: str
    figures: tuple[Figure, ...] = ()
    members: tuple[MemberFigures, ...] = ()


class Skipped(NamedTuple):
    """A probe that was asked for and did not run, with the reason."""

    probe: str
    rule: str
    why: str


class MeasuredFilesystem(NamedTuple):
    """The filesystem that was measured, as it can be recognized later; not without its UUID.

    `options` are the tokens in force by the option's name ("barrier": "nobarrier"), as far as they
    were known: a measurement says nothing of other options, nor of another kernel release.
    """

    uuid: str
    device: str
    kernel_release: str
    options: tuple[tuple[str, str], ...] = ()


class ProbeRun(NamedTuple):
    """One run of `ext4audit probe`. `mode` is "probe", or "observe" where nothing was written.

    `taken_at` is RFC 3339 in UTC. `boot_id` is /proc/sys/kernel/random/boot_id, empty where it
    cannot be read. `written_bytes` counts what was handed to the filesystem.
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
