"""No function takes quadratic time in the size of a host; executed lines are counted.

Noise in times would hide small quadratic terms; counts have no noise. A line counts each time it
starts, so loops that call nothing count, too. Loops inside a single C operation are not seen.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Collection
from importlib import import_module
from types import CodeType, FrameType, ModuleType
from typing import Any

import pytest

import ext4audit
from ext4audit.assemble.devices.target import Superblocks, TargetResolver, only_filesystems
from ext4audit.assemble.host import assemble_host
from ext4audit.assemble.inventory import take_inventory
from ext4audit.engine import audit
from ext4audit.finding import Disruption, Severity, Suppression
from ext4audit.fixing import choose_remedies
from ext4audit.fixing.playbook import playbook
from ext4audit.fixing.script import AuditedHost, build_script
from ext4audit.parsers.kickstart import parse_kickstart
from ext4audit.policy import SuppressionRule, suppress
from ext4audit.policy.baseline import apply_baseline, difference, known_findings
from ext4audit.renderers import Audited, Page, formats
from ext4audit.renderers.json_v1 import render as json_v1
from ext4audit.report import Report, ReportSource
from ext4audit.rules import all_rules
from ext4audit.sources.archive import recognise
from support.archives import contents
from support.hosts.evidence_host import TAKEN_AT, HostSource
from support.hosts.large_hosts import (
    many_bind_mounts,
    many_containers,
    many_filesystems,
    many_in_other_namespaces,
    many_mounted_copies,
    many_other_mounts,
    many_stacked_mounts,
    sosreport_of_arrays,
    sosreport_of_arrays_in_one_paragraph,
    sosreport_of_loops,
    sosreport_of_partitions,
    sosreport_of_unlisted_disks,
    supportconfig_of_disks,
)
from support.hosts.large_stacks import (
    FSTABS,
    STACKS,
    equal_lines,
    loops,
    many_defects,
    volumes_without_tables,
)

pytestmark = pytest.mark.bench

FEW, MANY = 10, 60
MOST_TIMES = 1.5 * MANY / FEW
FREE = 1_000
"""Lines that the larger host may run in excess; 60 items have about 1,800 pairs."""
PAGE = Page("0.0", TAKEN_AT)
MOUNTS = (many_bind_mounts, many_stacked_mounts, many_other_mounts, many_containers)
FILESYSTEMS = (many_filesystems, many_mounted_copies, many_in_other_namespaces)
ARCHIVES = (
    sosreport_of_arrays,
    sosreport_of_arrays_in_one_paragraph,
    sosreport_of_loops,
    sosreport_of_partitions,
    sosreport_of_unlisted_disks,
    supportconfig_of_disks,
)
Crowd = Callable[[int], HostSource]


def lines(work: Callable[[], object]) -> Counter[CodeType]:
    """Return how many lines of each function of ext4audit a call executes."""
    forget()
    found = Counter[CodeType]()
    package = ext4audit.__path__[0]

    def count(frame: FrameType, _event: str, _argument: object) -> Any:
        found[frame.f_code] += 1
        return count

    def enter(frame: FrameType, _event: str, _argument: object) -> Any:
        return count if frame.f_code.co_filename.startswith(package) else None

    sys.settrace(enter)
    try:
        work()
    finally:
        sys.settrace(None)
    return found


def forget() -> None:
    """Clear all caches: entries from the smaller host would save the larger one some lines."""
    ours = [module for name, module in sys.modules.items() if name.startswith("ext4audit.")]
    for value in (each for module in ours for each in vars(module).values()):
        if hasattr(value, "cache_clear") and not isinstance(value, ModuleType):
            value.cache_clear()


def audited(source: HostSource, names: Collection[str]) -> None:
    """Audit a host with all rules and render the report in the given formats."""
    report = report_of(source)
    for name in names:
        import_module(f"ext4audit.renderers.{name}").render([Audited("", report)], PAGE)


def report_of(source: HostSource) -> Report:
    """Return the report of an audit of a host with all rules."""
    host = assemble_host(source, TAKEN_AT)
    return audit(ReportSource("live", host.name), host, all_rules())


def squares(work: Callable[[int], object]) -> dict[str, tuple[int, int]]:
    """Return the functions whose number of lines grows more than 1.5 times as fast as the input."""
    few, many = lines(lambda: work(FEW)), lines(lambda: work(MANY))
    return {
        f"{code.co_filename}:{code.co_firstlineno} {code.co_name}": (few[code], many[code])
        for code in many
        if many[code] > MOST_TIMES * few[code] + FREE
    }


@pytest.mark.parametrize("build", [*MOUNTS, *FILESYSTEMS, *STACKS, *FSTABS])
def test_an_audit_has_no_squares(build: Crowd) -> None:
    """Six times the mounts, devices or fstab lines execute at most nine times as many lines."""
    hosts = {count: build(count) for count in (FEW, MANY)}
    assert squares(lambda count: audited(hosts[count], ())) == {}


@pytest.mark.parametrize("build", [many_defects, equal_lines, volumes_without_tables])
def test_no_format_has_squares(build: Crowd) -> None:
    """This holds for findings of many filesystems, many findings of one, and many unknowns."""
    hosts = {count: build(count) for count in (FEW, MANY)}
    assert squares(lambda count: audited(hosts[count], formats().values())) == {}


@pytest.mark.parametrize("files", ARCHIVES)
def test_an_archive_has_no_squares(files: Callable[[int], contents.Files]) -> None:
    """What an archive says about all devices is looked up for each of them, and not searched."""
    captured = {
        count: recognise(contents.archive(files(count), links=contents.SOS_LINKS))
        for count in (FEW, MANY)
    }

    def read(count: int) -> None:
        found = captured[count]
        assert found is not None
        assert len(assemble_host(found.source, found.taken_at).filesystems) >= count

    assert squares(read) == {}


def test_targets_have_no_squares() -> None:
    """Half of the filesystems are named as targets, on the host itself and in a capture of it."""
    hosts = {count: loops(count) for count in (FEW, MANY)}
    whole = {count: assemble_host(hosts[count], TAKEN_AT) for count in hosts}

    def look(count: int) -> None:
        resolver = TargetResolver(hosts[count], take_inventory(hosts[count]))
        paths = [f"/data/{index}.img" for index in range(0, count, 2)]
        found = [resolver.resolve(path) for path in paths]
        numbers = {number for each in found if isinstance(each, Superblocks) for number in each[0]}
        assert len(numbers) == len(paths)
        assemble_host(hosts[count], TAKEN_AT, only=numbers)
        named = [f"/srv/loop{index}" for index in range(0, count, 2)]
        assert len(only_filesystems(whole[count], named).filesystems) == len(named)

    assert squares(look) == {}


def test_a_policy_has_no_squares() -> None:
    """The policy has a suppression for each filesystem."""
    reports = {count: report_of(many_defects(count)) for count in (FEW, MANY)}

    def apply(count: int) -> None:
        subjects = [fs.mount_points[0] for fs in reports[count].host.filesystems]
        accepted = Suppression("accepted")
        rules = [SuppressionRule("DUR001", subject, accepted) for subject in subjects]
        _, used = suppress(reports[count], rules, "2026-01-01")
        assert len(used) == count

    assert squares(apply) == {}


def test_a_script_has_no_squares() -> None:
    """The remedies of many filesystems become a script and a playbook."""
    reports = {count: report_of(many_defects(count)) for count in (FEW, MANY)}
    audited_host = AuditedHost("host", None, TAKEN_AT, "0.0")

    def write(count: int) -> None:
        chosen, left = choose_remedies(reports[count], Severity.LOW, Disruption.UNMOUNT, {})
        script = build_script(audited_host, chosen, left)
        assert len(script.chosen) >= count
        playbook(script)

    assert squares(write) == {}


def test_a_baseline_has_no_squares() -> None:
    """A report is compared with itself as a baseline and as a JSON document."""
    reports = {count: report_of(many_defects(count)) for count in (FEW, MANY)}
    documents = {
        count: json.loads(json_v1([Audited("", reports[count])], PAGE)) for count in reports
    }

    def compare(count: int) -> None:
        known = apply_baseline(reports[count], known_findings(documents[count]))
        assert all(finding.known for finding in known.findings)
        assert not difference(documents[count], documents[count]).new

    assert squares(compare) == {}


def test_a_fleet_has_no_squares() -> None:
    """Many hosts with equal findings, and as many unreadable ones, are rendered in all formats."""
    report = report_of(equal_lines(1))
    several = [name for name in formats().values() if name != "json_v1"]

    def render(count: int) -> None:
        hosts = [Audited(f"host{n}", _renamed(report, f"host{n}")) for n in range(count)]
        hosts += [Audited(f"unread{n}", None, "it does not answer") for n in range(count)]
        for name in several:
            import_module(f"ext4audit.renderers.{name}").render(hosts, PAGE)

    assert squares(render) == {}


def _renamed(report: Report, key: str) -> Report:
    source = report.source._replace(key=key, groups=("all", f"group-{key}"))
    return report._replace(source=source)


def test_a_document_of_volumes_has_no_squares() -> None:
    """A kickstart file has many disks in one volume group, and as many volumes on it."""

    def read(count: int) -> None:
        parts = "".join(f"part pv.{n} --size=9000 --ondisk=sd{n}\n" for n in range(count))
        group = f"volgroup vg {' '.join(f'pv.{n}' for n in range(count))}\n"
        volumes = (
            f"logvol /m{n} --vgname=vg --size=1000 --name=l{n} --fstype=ext4\n"
            for n in range(count)
        )
        assert len(parse_kickstart(f"{parts}{group}{''.join(volumes)}").planned) == count

    assert squares(read) == {}
