"""The request queue of a block device (Documentation/ABI/stable/sysfs-block)."""

from __future__ import annotations

from ext4audit.assemble.reading import integer, read
from ext4audit.facts.block import QueueLimits
from ext4audit.parsers.sysfs import parse_flag, parse_write_cache
from ext4audit.sources.ask import Source


def read_queue(source: Source, directory: str) -> QueueLimits:
    """Read `queue/*` below a device's sysfs directory; each value may be a hole."""
    return QueueLimits(
        write_cache=read(source, f"{directory}/queue/write_cache", parse_write_cache),
        fua=read(source, f"{directory}/queue/fua", parse_flag),
        rotational=read(source, f"{directory}/queue/rotational", parse_flag),
        discard_max_bytes=integer(source, f"{directory}/queue/discard_max_bytes"),
        minimum_io_bytes=integer(source, f"{directory}/queue/minimum_io_size"),
        optimal_io_bytes=integer(source, f"{directory}/queue/optimal_io_size"),
        logical_block_bytes=integer(source, f"{directory}/queue/logical_block_size"),
        physical_block_bytes=integer(source, f"{directory}/queue/physical_block_size"),
        nr_requests=integer(source, f"{directory}/queue/nr_requests"),
        max_sectors_kb=integer(source, f"{directory}/queue/max_sectors_kb"),
        wbt_latency_usec=integer(source, f"{directory}/queue/wbt_lat_usec"),
    )
