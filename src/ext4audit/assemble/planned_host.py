"""A host with the one filesystem of a plan: what the same rules judge as on a live one."""

from __future__ import annotations

from ext4audit.assemble.option_places import OptionSources
from ext4audit.assemble.options import resolve_options
from ext4audit.assemble.planned_mount import ORIGIN, planned_entry, planned_mount
from ext4audit.assemble.planned_prediction import Prediction
from ext4audit.assemble.planned_stack import planned_stack
from ext4audit.assemble.planned_usage import planned_usage
from ext4audit.evidence import Evidence, Known, Unknown, Why, derive
from ext4audit.facts.groups import GroupTable
from ext4audit.facts.health import ErrorCounters
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.layout import MetadataLayout
from ext4audit.facts.plan import Plan
from ext4audit.facts.superblock import Superblock
from ext4audit.layout.load import measure
from ext4audit.layout.map_of import map_of
from ext4audit.records import replace

NOT_RUNNING = "no kernel has mounted it yet"


def planned_host(plan: Plan, predicted: Prediction, taken_at: str) -> Host:
    """Return the host of a plan; what the plan does not say is a hole that names the flag."""
    fs = _filesystem(plan, predicted)
    return Host(
        name=plan.host.name,
        taken_at=taken_at,
        kernel=plan.host.kernel,
        os=plan.host.os,
        virtualization=plan.host.virtualization,
        container=None,
        kernel_arguments=Known((), "the plan"),
        memory=plan.host.memory,
        mounts=Known(fs.mounts, "the plan"),
        fstab=fs.fstab,
        filesystems=(fs,),
        gaps=predicted.doubts,
        planned=True,
        devices=Known((), "the plan"),
        idle=Known((), "the plan"),
        boot_loader=_not_planned("boot loader"),
        md_arrays=Known((), "the plan"),
        fstrim=_not_planned("fstrim.timer"),
        raid0_default_layout=Known(0, "the plan"),
    )


def _not_planned(what: str) -> Unknown:
    return Unknown(what, Why.NOT_CAPTURED, "a plan does not tell it", "scan the host once it runs")


def _filesystem(plan: Plan, predicted: Prediction) -> Filesystem:
    stack = planned_stack(plan)
    mount = planned_mount(plan, stack.device_number)
    shown = Known(mount, ORIGIN)
    superblock = derive(
        "planned superblock", lambda made: _cleared(made, plan), predicted.superblock
    )
    known = superblock.value if isinstance(superblock, Known) else None
    return Filesystem(
        device_number=stack.device_number,
        name=plan.name,
        device=plan.device,
        fstype=Known(plan.fstype, "the plan"),
        alive=True,
        mounts=(mount,),
        read_only=Known("ro" in mount.super_options[:1], ORIGIN),
        superblock=superblock,
        uuid=known.uuid if known else None,
        label=known.label if known else None,
        options=resolve_options(
            OptionSources(_no_options_file(plan), shown, superblock, plan.host.kernel)
        ),
        fstab=Known((planned_entry(plan, stack.device_number),), "the plan"),
        stack=Known(stack, "the plan"),
        layout=_layout(plan, predicted),
        usage=derive("planned usage", planned_usage, superblock),
        errors=Known(ErrorCounters(0), "the plan"),
        journal_errno=Known(0, "the plan"),
        unzeroed_groups=Known(0, "the plan"),
    )


def _cleared(superblock: Superblock, plan: Plan) -> Superblock:
    """Return the superblock as tune2fs leaves it behind mke2fs."""
    kept = tuple(word for word in superblock.default_mount_options if word not in plan.cleared)
    return replace(superblock, default_mount_options=kept)


def _no_options_file(plan: Plan) -> Unknown:
    """Return why the options in force cannot be read, and what would settle them."""
    hint = "say it in --mount-options: whether this kernel has it by default is not verified"
    if isinstance(plan.host.kernel, Unknown):
        hint = plan.host.kernel.hint
    return Unknown("options in force", Why.NOT_CAPTURED, NOT_RUNNING, hint)


def _layout(plan: Plan, predicted: Prediction) -> Evidence[MetadataLayout] | None:
    """Return where the metadata will lie on the stripe, None where nothing stripes."""
    geometry = plan.geometry
    if geometry is None:
        return None

    def count(table: GroupTable, superblock: Superblock) -> MetadataLayout:
        return measure(
            table,
            superblock,
            map_of(geometry),
            basis=predicted.basis,
            doubts=predicted.doubts,
        )

    origin = predicted.table.origin if isinstance(predicted.table, Known) else None
    return derive(
        "planned metadata layout", count, predicted.table, predicted.superblock, origin=origin
    )
