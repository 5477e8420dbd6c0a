from __future__ import annotations

import pytest

from evidence_host import FSTRIM_LINK, absent, debian_host, denied
from ext4audit.assemble.services import (
    MDADM_CONF,
    RAID0_DEFAULT_LAYOUT,
    TRIMMERS,
    read_fstrim,
    read_md_arrays,
    read_raid0_default_layout,
)
from ext4audit.evidence import Unknown, need
from ext4audit.sources.ask import RealPath

UNIT = "/usr/lib/systemd/system/fstrim.timer"


@pytest.mark.parametrize("path", TRIMMERS)
def test_each_place_is_enough_to_trim(path: str) -> None:
    """A link to the timer, or a job of cron."""
    host = debian_host().tell(RealPath(FSTRIM_LINK), absent()).tell(RealPath(path), UNIT)
    assert need(read_fstrim(host.source()))


def test_nothing_there_trims_nothing() -> None:
    """Debian leaves the timer disabled."""
    assert not need(read_fstrim(debian_host().tell(RealPath(FSTRIM_LINK), absent()).source()))


def test_a_masked_timer_trims_nothing() -> None:
    """The link then leads to /dev/null."""
    assert not need(read_fstrim(debian_host().tell(RealPath(FSTRIM_LINK), "/dev/null").source()))


def test_a_directory_that_may_not_be_seen_is_a_hole() -> None:
    """Unless another place shows that something trims."""
    host = debian_host().tell(RealPath(FSTRIM_LINK), denied())
    assert isinstance(read_fstrim(host.source()), Unknown)
    assert need(read_fstrim(host.tell(RealPath(TRIMMERS[1]), UNIT).source()))


@pytest.mark.parametrize("path", MDADM_CONF)
def test_the_arrays_of_mdadm_conf_are_named(path: str) -> None:
    """At the place of Debian, or at that of the others."""
    host = debian_host().file(path, "ARRAY /dev/md0 UUID=1:2:3:4\n")
    assert need(read_md_arrays(host.source())) == ("/dev/md0",)


def test_no_file_names_no_array() -> None:
    """One that may not be read is another matter."""
    assert need(read_md_arrays(debian_host().source())) == ()
    assert isinstance(read_md_arrays(debian_host().file(MDADM_CONF[1], denied()).source()), Unknown)


@pytest.mark.parametrize(("text", "layout"), [("0\n", 0), ("2\n", 2)])
def test_the_default_layout_is_the_modules_parameter(text: str, layout: int) -> None:
    """0 is the module's word for: nobody said."""
    host = debian_host().file(RAID0_DEFAULT_LAYOUT, text)
    assert need(read_raid0_default_layout(host.source())) == layout


def test_a_module_that_is_not_loaded_has_no_default() -> None:
    """A text that is none is a hole."""
    assert need(read_raid0_default_layout(debian_host().source())) == 0
    odd = debian_host().file(RAID0_DEFAULT_LAYOUT, "odd\n")
    assert isinstance(read_raid0_default_layout(odd.source()), Unknown)
