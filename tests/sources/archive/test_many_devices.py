"""Archives of many devices: a text about all devices is read once, not once per device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import pytest

from ext4audit.assemble.host import assemble_host
from ext4audit.evidence import Evidence
from ext4audit.sources.archive.capture import Output
from ext4audit.sources.archive.layouts import SosCapture
from ext4audit.sources.archive.source import ArchiveSource
from support.archives.contents import SOS_LINKS, archive
from support.hosts.large_hosts import sosreport_of_arrays, sosreport_of_loops

OF_ONE_DEVICE = ("/sys/", "/proc/fs/", "dumpe2fs ", "udevadm ", "mdadm -E ", "parted ", "fdisk ")
"""Texts about a single device, which are read for each."""
Made = Callable[[int], dict[str, str]]


class CountingCapture(SosCapture):
    """A capture that counts how often each text about all devices is read."""

    def __init__(self, files: dict[str, str]) -> None:
        """Hold the files of a sosreport."""
        self.counted: Counter[str] = Counter()
        made = archive(files, links=SOS_LINKS)
        super().__init__(made, "", kind="sosreport", commands="sos_commands")

    def read(self, path: str) -> Evidence[str] | None:
        """Count a file that is read."""
        self._count(path)
        return super().read(path)

    def run(self, line: str) -> Sequence[Output]:
        """Count a command line that is looked up."""
        self._count(line)
        return super().run(line)

    def outputs(self, program: str) -> Sequence[Output]:
        """Count a program that is looked up."""
        self._count(program)
        return super().outputs(program)

    def _count(self, name: str) -> None:
        if not name.startswith(OF_ONE_DEVICE):
            self.counted[name] += 1


@pytest.mark.parametrize("made", [sosreport_of_arrays, sosreport_of_loops])
def test_number_of_text_scans_does_not_grow_with_devices(made: Made) -> None:
    """Each look-up reads the text from its start: its cost would grow with the devices squared."""
    counted = []
    for count in (2, 20):
        capture = CountingCapture(made(count))
        host = assemble_host(ArchiveSource(capture), "2026-01-02T03:04:05Z")
        assert len(host.filesystems) == count + 2
        counted.append(capture.counted)
    few, many = counted
    assert {name: many[name] for name in few} == few
