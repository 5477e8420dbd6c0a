"""`ext4audit plan`: audit a filesystem that does not exist yet, and print the lines to use."""

from __future__ import annotations

import importlib
from typing import Any

import click

from ext4audit.cli.choice import Choice
from ext4audit.cli.completion import files
from ext4audit.cli.output import write
from ext4audit.cli.plan_file import read_plan_file
from ext4audit.cli.plan_input import CACHES, KEYS, plan_of
from ext4audit.cli.plan_judge import PlanJudge, judge_plan
from ext4audit.cli.print_report import code_of, page_of, tell_notices, write_page
from ext4audit.cli.report_flags import report_options
from ext4audit.cli.report_options import ReportOptions, chosen, now
from ext4audit.cli.selected_rules import on_plans
from ext4audit.cli.sinks import Sink
from ext4audit.cli.timeout_option import timeout_option
from ext4audit.facts.plan import PlanAdvice
from ext4audit.renderers.page import Audited
from ext4audit.report import Report

PLAN_PAGES = {"text": "text_plan", "json": "json_v1_plan"}
"""The formats that show the lines to use beside the report."""


@click.command("plan")
@click.argument("file", required=False, metavar="[FILE.toml]", shell_complete=files)
@click.option("--raid0", type=int, metavar="N", help="An md array of N disks that stripes.")
@click.option("--raid10", type=int, metavar="N", help="The same with two copies, near=2.")
@click.option("--raid5", type=int, metavar="N", help="The same with parity, N disks in all.")
@click.option("--raid6", type=int, metavar="N", help="The same with two parities, N in all.")
@click.option("--raid1", type=int, metavar="N", help="An md array of N copies.")
@click.option("--chunk", metavar="SIZE", help="The array's chunk (512K is mdadm's default).")
@click.option("--size", metavar="SIZE", help="Of the filesystem's device: 1200G, or bytes.")
@click.option("--mkfs", metavar="WORDS", help='Options of mke2fs: "-g 32744 -O ^metadata_csum".')
@click.option("--mount-options", metavar="WORDS", help='As in fstab: "noatime,nobarrier".')
@click.option(
    "--mount-point",
    metavar="PATH",
    shell_complete=files,
    help="Where it is mounted; /data if not said.",
)
@click.option(
    "--device",
    metavar="PATH",
    shell_complete=files,
    help="Its device; /dev/md0 or /dev/sdX if not said.",
)
@click.option("--kernel", metavar="RELEASE", help="What uname -r will say: 6.1.0-18-amd64.")
@click.option("--os", metavar="ID:VERSION", help="As os-release has them: debian:12.")
@click.option("--memory", metavar="SIZE", help="Of the host: 64G.")
@click.option("--virtualization", metavar="KIND", help="As systemd-detect-virt says: kvm.")
@click.option("--rotational/--non-rotational", default=None, help="What the disks are.")
@click.option("--write-cache", type=Choice(list(CACHES)), help="Of the disks.")
@click.option("--nr-requests", type=int, metavar="N", help="Of the disks' queues.")
@click.option("--max-sectors-kb", type=int, metavar="N", help="Of the disks' queues.")
@click.option("--wbt-lat-usec", type=int, metavar="N", help="Of the disks' queues; 0 is off.")
@click.option("--target-e2fsprogs", metavar="VERSION", help="Of the mke2fs that will make it.")
@click.option(
    "--mke2fs-conf",
    metavar="FILE",
    shell_complete=files,
    help="mke2fs.conf of the host that will make it.",
)
@click.option(
    "--from", metavar="SOURCE", shell_complete=files, help="The rest is as on this captured host."
)
@report_options
@timeout_option(60.0)
def command(**given: Any) -> int:  # noqa: ANN401 - each option has its own type
    """Audit an ext4 filesystem that does not exist yet, and print the lines that make it.

    The same rules judge it as judge a live one. Where the metadata will lie is simulated: the
    real mke2fs makes the filesystem in memory, and nothing is written anywhere. What the plan
    does not say is not assumed: the rules that need it are undetermined, and the hint names
    the flag. A TOML file holds the same words as keys; flags beat it.

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
    plan = plan_of(_said(given))
    label = given["file"] or f"{plan.device} on {plan.mount_point}"
    judge = PlanJudge(options.rules, options.profiles, label, now(), given["timeout_seconds"])
    report, advice = judge_plan(plan, judge)
    report = options.treatment.one(report, options.rules, whole=False)
    for sink in options.sinks:
        if sink.fmt in PLAN_PAGES:
            _write(sink, report, advice, options)
        else:
            write_page(sink, (Audited(label, report),), options)
    tell_notices(report, options)
    return code_of(report, options)


def _said(given: dict[str, Any]) -> dict[str, Any]:
    """Return the words of the plan by key: the file's, and over them those of the flags."""
    flags = {key: given[key] for key in (*KEYS, "from") if given[key] is not None}
    from_file = read_plan_file(given["file"], (*KEYS, "from")) if given["file"] else {}
    levels = [key for key in flags if key.startswith("raid")]
    kept = {k: v for k, v in from_file.items() if not (levels and k.startswith("raid"))}
    return {**kept, **flags}


def _write(sink: Sink, report: Report, advice: PlanAdvice, options: ReportOptions) -> None:
    """Write the report with the lines to use; each renderer is imported when it is asked for."""
    module = importlib.import_module(f"ext4audit.renderers.{PLAN_PAGES[sink.fmt]}")
    write(module.render(report, advice, page_of(sink, options)), sink.path)
