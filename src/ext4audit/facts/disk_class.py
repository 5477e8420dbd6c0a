"""Classes of disks and how fast they are assumed to write; the data are in disk_classes.toml."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from ext4audit.facts import read_table, remembered

TABLE = "disk_classes.toml"
NVME, REMOVABLE, VIRTUAL, ROTATIONAL, SSD = "nvme", "removable", "virtual", "rotational", "ssd"


class DiskClass(NamedTuple):
    """One class of disks; disk_classes.toml explains the fields."""

    title: str
    names: tuple[str, ...]
    megabytes_per_second: int
    slow: bool
    source: str
    confirmed: str


def disk_classes() -> Mapping[str, DiskClass]:
    """Return the classes by name."""
    return _classes(read_table(TABLE))


@remembered
def _classes(table: dict[str, Any]) -> Mapping[str, DiskClass]:
    return {name: DiskClass(**{**each, "names": tuple(each["names"])}) for name, each in table.items()}
