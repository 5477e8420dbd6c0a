"""`ext4audit plan`: audit a filesystem that does not exist yet, and print the commands to use."""

from __future__ import annotations

from typing import Any

import click

from ext4audit.cli import Choice, completer
from ext4audit.cli.options import chosen, report_options, timeout_option
from ext4audit.cli.output import progress
from ext4audit.cli.plans import CACHES, KEYS, plan_of, read_plan_file
from ext4audit.cli.plans.judging import PlanJudge, judge_plan
from ext4audit.cli.policy import on_plans
from ext4audit.cli.reports import code_of, print_notices, write_page
from ext4audit.renderers.shared import Audited
from ext4audit.sources import utc_now


@click.command("plan")
@click.argument("file", required=False, metavar="[FILE.toml]", shell_complete=completer("files"))
@click.option("--raid0", type=int, metavar="N", help="md RAID0 of N disks.")
@click.option("--raid10", type=int, metavar="N", help="md RAID10 of N disks (near=2).")
@click.option("--raid5", type=int, metavar="N", help="md RAID5 of N disks, parity included.")
@click.option("--raid6", type=int, metavar="N", help="md RAID6 of N disks, parity included.")
@click.option("--raid1", type=int, metavar="N", help="md RAID1 of N disks.")
@click.option("--chunk", metavar="SIZE", help="Chunk size of the array (mdadm's default is 512K).")
@click.option(
    "--size", metavar="SIZE", help="Size of the device, such as 1200G, or a number of bytes."
)
@click.option("--mkfs", metavar="WORDS", help='mke2fs options: "-g 32744 -O ^metadata_csum".')
@click.option(
    "--mount-options", metavar="WORDS", help='Mount options, as in fstab: "noatime,nobarrier".'
)
@click.option(
    "--mount-point",
    metavar="PATH",
    shell_complete=completer("files"),
    help="Mount point.  [default: /data]",
)
@click.option(
    "--device",
    metavar="PATH",
    shell_complete=completer("files"),
    help="Device of the filesystem.  [default: /dev/md0 for an array, else /dev/sdX]",
)
@click.option(
    "--kernel", metavar="RELEASE", help="Kernel release as in uname -r, such as 6.1.0-18-amd64."
)
@click.option(
    "--os",
    metavar="ID:VERSION",
    help="Distribution (ID and VERSION_ID of os-release), such as debian:12.",
)
@click.option("--memory", metavar="SIZE", help="Memory of the host, such as 64G.")
@click.option(
    "--virtualization",
    metavar="KIND",
    help="Virtualization as in systemd-detect-virt, such as kvm.",
)
@click.option("--rotational/--non-rotational", default=None, help="Whether the disks rotate.")
@click.option("--write-cache", type=Choice(list(CACHES)), help="Write cache of the disks.")
@click.option("--nr-requests", type=int, metavar="N", help="nr_requests of the disks' queues.")
@click.option("--max-sectors-kb", type=int, metavar="N", help="max_sectors_kb of the queues.")
@click.option("--wbt-lat-usec", type=int, metavar="N", help="wbt_lat_usec of the queues; 0 is off.")
@click.option("--target-e2fsprogs", metavar="VERSION", help="Version of mke2fs on the host.")
@click.option(
    "--mke2fs-conf",
    metavar="FILE",
    shell_complete=completer("files"),
    help="mke2fs.conf of the host.",
)
@click.option(
    "--from",
    metavar="SOURCE",
    shell_complete=completer("files"),
    help="Take the other properties of the host from a snapshot or an archive.",
)
@report_options
@timeout_option(60.0)
def command(**given: Any) -> int:  # noqa: ANN401 - each option has its own type
    """Audit an ext4 filesystem before it is created, and print the commands that create it.

    The rules are those of `scan`. The layout is simulated: the real mke2fs creates the filesystem
    in memory. Missing values are not assumed: the rules that need them are undetermined, and the
    hint names the option. A TOML file can hold the options as keys; the command line overrides
    it.

    Exit codes: 0 clean and complete, 1 findings at or above --fail-on, 2 usage error or refused
    by mke2fs, 3 incomplete, 70 internal error.

    \b
    Examples:
      ext4audit plan --raid0 12 --chunk 512K --size 1200G --rotational
      ext4audit plan --size 100G --mkfs "-m 0" --mount-options nobarrier
      ext4audit plan --raid10 8 --chunk 256K --size 8T --from db1.snapshot
      ext4audit plan storage.toml --target-e2fsprogs 1.46.5 --allow-incomplete
    """  # noqa: D301 - \b is click's mark for a paragraph that keeps its lines
    options = chosen(given, on_plans)
    plan = plan_of(_settings(given))
    label = given["file"] or f"{plan.device} on {plan.mount_point}"
    judge = PlanJudge(options.rules, options.profiles, label, utc_now(), given["timeout_seconds"])
    with progress(quiet=options.verbosity < 0, doing=f"simulating {label}"):
        report, advice = judge_plan(plan, judge)
    report = options.post_processing.one(report, options.rules, whole=False)
    for output in options.outputs:
        write_page(output, (Audited(label, report),), options, advice)
    print_notices(report, options)
    return code_of(report, options)


def _settings(given: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of the plan by key: flags override the file."""
    flags = {key: given[key] for key in (*KEYS, "from") if given[key] is not None}
    from_file = read_plan_file(given["file"], (*KEYS, "from")) if given["file"] else {}
    levels = [key for key in flags if key.startswith("raid")]
    kept = {k: v for k, v in from_file.items() if not (levels and k.startswith("raid"))}
    return {**kept, **flags}
