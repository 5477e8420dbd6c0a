"""The superblock and the group table that mke2fs will make: simulated, or computed.

The real mke2fs on a sparse file in memory is exact, and costs what the copies of the group
descriptors take: 15 MB for each TiB with the defaults. Beyond what this machine can spare, mke2fs
still chooses the parameters (`-n`, at the real size) and the features (at a small size), and
the places of the metadata come from the closed form.
"""

from __future__ import annotations

from ext4audit.assemble.planned_parameters import computed, without_mke2fs
from ext4audit.assemble.planned_prediction import Prediction
from ext4audit.assemble.planned_simulation import run_mke2fs, simulated
from ext4audit.assemble.reading import ask
from ext4audit.evidence import Evidence, Known, Unknown, Why, derive
from ext4audit.facts.e2fsprogs import (
    OLDEST,
    Version,
    features_to_add,
    features_to_say,
    parse_banner,
    parse_version,
)
from ext4audit.facts.mkfs_words import MkfsWords
from ext4audit.facts.plan import Plan
from ext4audit.facts.superblock import Superblock
from ext4audit.parsers.mkfs_dry_run import parse_dry_run
from ext4audit.records import replace
from ext4audit.sources.ask import RunCommand, Source


def predict_superblock(source: Source, plan: Plan) -> Prediction:
    """Predict the filesystem of a plan; `source` runs mke2fs and reads what it made."""
    local = ask(source, RunCommand(("mke2fs", "-V")), parse_banner, "version of mke2fs")
    if isinstance(local, Unknown):
        return _finished(plan, without_mke2fs(plan, local), local)
    words = _adjusted(plan, local.value)
    dry = run_mke2fs(source, plan, words, "-n", "-v")
    found = derive("parameters of mke2fs", parse_dry_run, dry)
    if isinstance(found, Unknown):
        hole = Prediction(found, found, "simulated", (), ())
        return _finished(plan, hole, local)
    words = words.with_extended(*plan.stripe_words(found.value.block_bytes))
    made = simulated(source, plan, words, found.value)
    if made is None:
        made = computed(source, plan, words, found.value)
    return _finished(plan, made, local)


def _adjusted(plan: Plan, local: Version) -> MkfsWords:
    """Return the user's options behind what the target's version sets otherwise than ours."""
    target = _target(plan)
    if target is None or target == local:
        return plan.mkfs
    return plan.mkfs.with_features_first(*features_to_say(local, target))


def _target(plan: Plan) -> Version | None:
    """Return the planned version, None where a configuration file speaks for it."""
    host = plan.host
    if host.e2fsprogs is None or host.configuration is not None:
        return None
    return parse_version(host.e2fsprogs)


def _finished(plan: Plan, made: Prediction, local: Evidence[Version]) -> Prediction:
    """Take out what nobody knows yet, and say what was assumed."""
    target = _target(plan)
    superblock = derive(
        "planned superblock", lambda known: _as_planned(known, plan, local, target), made.superblock
    )
    doubts = made.doubts
    if target is not None and target < OLDEST:
        detail = f"what e2fsprogs {plan.host.e2fsprogs} makes is not known in detail"
        doubts = (*doubts, Unknown("planned superblock", Why.UNSUPPORTED, detail))
    return replace(
        made,
        superblock=superblock,
        doubts=doubts,
        assumed=tuple(_assumed(plan, made.basis, local)),
    )


def _as_planned(
    superblock: Superblock, plan: Plan, local: Evidence[Version], target: Version | None
) -> Superblock:
    """Return the superblock without a UUID that was drawn for the simulation only."""
    added = features_to_add(local.value, target) if isinstance(local, Known) and target else set()
    said = plan.mkfs.value("-U")
    return replace(
        superblock,
        uuid=superblock.uuid if said not in {None, "random", "time", "clear"} else None,
        features=superblock.features | added,
    )


def _assumed(plan: Plan, basis: str, local: Evidence[Version]) -> list[str]:
    if isinstance(local, Unknown):
        return [f"computed by the rules of upstream mke2fs 1.47: {local.detail}"]
    version = ".".join(map(str, local.value))
    file = plan.host.configuration or "/etc/mke2fs.conf of this machine"
    how = {
        "simulated": f"simulated in memory by mke2fs {version} with {file}",
        "computed": f"parameters by mke2fs {version} with {file}, places of the metadata by the "
        "closed form: a simulation would take too much memory",
    }
    said = [how[basis]]
    target = _target(plan)
    if target is not None and target != local.value:
        said.append(f"features as upstream e2fsprogs {plan.host.e2fsprogs} sets them by default")
    return said
