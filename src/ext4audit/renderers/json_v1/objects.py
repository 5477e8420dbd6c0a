"""The objects of JSON, version 1: filesystems, options, stacks, layouts, verdicts, findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ext4audit.evidence import Known, Unknown, for_wording, origin_of
from ext4audit.facts.devices import SECTOR_BYTES, BlockDevice
from ext4audit.facts.host import Filesystem
from ext4audit.facts.layout import MemberLoad, MetadataLayout, Spread, StripeGeometry
from ext4audit.facts.mount import EffectiveOption, EffectiveOptions
from ext4audit.finding import (
    Citation,
    Finding,
    LineEdit,
    NewFile,
    Remedy,
    Suppression,
)
from ext4audit.renderers import chunk_bytes
from ext4audit.report import Verdict, subject_of

_RATIO_DIGITS = 4
"""Decimals of a ratio, rounded so that two runs can be compared as text."""


def verdict_object(
    verdict: Verdict, fs: Filesystem | None, by_fact: Mapping[str, Filesystem]
) -> dict[str, Any]:
    """Return one verdict; `fs` is None for the host, and `evidence` is that of a pass.

    `by_fact` has the filesystems by UUID and mount point; a finding of the host can be about one.
    """
    return {
        "rule": verdict.rule.code,
        "name": verdict.rule.name,
        "filesystem": verdict.filesystem_id,
        "outcome": verdict.outcome.value,
        "findings": [_finding(f, subject_of(f, fs, by_fact)) for f in verdict.findings],
        "unknowns": [unknown_object(unknown) for unknown in verdict.unknowns],
        "note": verdict.note,
        "suppression": _common_suppression(verdict),
        "evidence": [_citation(citation) for citation in verdict.evidence],
    }


def _finding(finding: Finding, fs: Filesystem | None) -> dict[str, Any]:
    """Return one finding with the filesystem that it is about, so that readers need no join."""
    points = fs.mount_points if fs else tuple(filter(None, [finding.mount_point]))
    return {
        "severity": finding.severity.value,
        "confidence": finding.confidence.value,
        "message": finding.message,
        "evidence": [_citation(citation) for citation in finding.citations],
        "remedies": [_remedy(remedy) for remedy in finding.remedies],
        "fact": finding.numbered_fact,
        "suppression": _suppression(finding.suppression),
        "known": finding.known,
        "summary": finding.short,
        "device": fs.device if fs else finding.device or None,
        "mount_point": next(iter(points), None),
    }


def _common_suppression(verdict: Verdict) -> dict[str, Any] | None:
    """Return the first suppression if all findings of the verdict are suppressed, else None."""
    found = [finding.suppression for finding in verdict.findings]
    return _suppression(found[0]) if found and None not in found else None


def _suppression(suppression: Suppression | None) -> dict[str, Any] | None:
    if suppression is None:
        return None
    return {
        "reason": suppression.reason,
        "expires": suppression.expires,
        "owner": suppression.owner,
    }


def _citation(citation: Citation) -> dict[str, Any]:
    return {"label": citation.label, "value": citation.value, "origin": citation.origin}


def _remedy(remedy: Remedy) -> dict[str, Any]:
    return {
        "summary": remedy.summary,
        "disruption": remedy.disruption.value,
        "destructive": remedy.destructive,
        "trade_off": remedy.trade_off,
        "steps": [{"phase": step.phase.value, "command": step.command} for step in remedy.lines],
        "diff": [_file_change(change) for change in remedy.file_changes],
    }


def _file_change(change: LineEdit | NewFile) -> dict[str, Any]:
    """Return a line of a file before and after a remedy, or the content of a new file."""
    if isinstance(change, NewFile):
        path, content = change
        return {"path": path, "line_number": None, "before": None, "after": content}
    return {
        "path": change.path,
        "line_number": change.line_number if change.is_numbered else None,
        "before": change.before,
        "after": change.after,
    }


def unknown_object(unknown: Unknown) -> dict[str, Any]:
    """Return one unknown: what it is, why, and how to determine it."""
    return {
        "what": unknown.what,
        "why": unknown.why.value,
        "detail": unknown.detail,
        "hint": unknown.hint,
    }


def options_object(fs: Filesystem) -> dict[str, Any]:
    """Return the effective options, those that each location shows, and their provenance.

    `effective` is null unless its source shows every option, because readers would take a partial
    list for a complete one. `provenance` lists the options that are established.
    """
    options = None if isinstance(fs.options, Unknown) else fs.options.value
    established = () if options is None else options.options
    complete = options is not None and options.complete
    superblock = for_wording(fs.superblock, None)
    return {
        "effective": [option.token for option in established] if complete else None,
        "source": None if options is None else options.source,
        "mount_table": _mount_table(fs, options),
        "superblock_defaults": (
            None if superblock is None else list(superblock.default_mount_options)
        ),
        "hidden": [option.token for option in established if option.hidden],
        "fstab": _fstab(fs),
        "complete": complete,
        "provenance": [_provenance(option) for option in established],
        "unknown": _unknown(fs, options),
    }


def _mount_table(fs: Filesystem, options: EffectiveOptions | None) -> list[str]:
    """Return the superblock options of the mount table, even if no source has them all."""
    if options is not None:
        return list(options.mount_table or ())
    return list(fs.mounts[0].super_options) if fs.mounts else []


def _fstab(fs: Filesystem) -> list[str] | None:
    """Return the options of the fstab entry, preferring one for a current mount point."""
    entries = for_wording(fs.fstab, ())
    places = {mount.mount_point for mount in fs.mounts}
    current = [entry for entry in entries if entry.line.mount_point in places]
    chosen = next(iter((*current, *entries)), None)
    return None if chosen is None else list(chosen.line.options)


def _unknown(fs: Filesystem, options: EffectiveOptions | None) -> dict[str, Any] | None:
    if isinstance(fs.options, Unknown):
        return unknown_object(fs.options)
    gap = None if options is None else options.gap
    return None if gap is None else unknown_object(gap)


def _provenance(option: EffectiveOption) -> dict[str, Any]:
    return {
        "option": option.name,
        "in_force": option.token,
        "set_by": option.set_by.value,
        "origin": option.origin,
        "hidden": option.hidden,
        "baseline": option.baseline,
        "layers": [
            {"set_by": layer.provenance.value, "token": layer.token, "origin": layer.origin}
            for layer in option.layers
        ],
    }


def layout_object(layout: MetadataLayout) -> dict[str, Any]:
    """Return the metadata layout of a filesystem, for `scan` and for `layout`."""
    return {
        "block_bytes": layout.block_bytes,
        "blocks_per_group": layout.blocks_per_group,
        "groups": layout.groups,
        "flex_bg_groups": layout.flex_bg_groups,
        "members": [_member(member) for member in layout.members],
        "skew": rounded(layout.skew),
        "effective_members": rounded(layout.effective_members),
        "evenness": rounded(layout.evenness),
        "cluster_blocks": layout.cluster_blocks,
        "size_blocks": layout.size_blocks,
        "basis": layout.basis,
        "stripe": None if layout.geometry is None else _stripe(layout.geometry),
        "bitmaps": _spread(layout.bitmaps),
        "bitmap_data": _spread(layout.bitmap_data),
        "inode_tables": _spread(layout.inode_tables),
        "descriptors": _spread(layout.descriptors),
        "touches": _spread(layout.touches),
        "doubts": [unknown_object(doubt) for doubt in layout.doubts],
    }


def rounded(ratio: float) -> float:
    """Round a ratio to the number of decimals in the JSON."""
    return round(ratio, _RATIO_DIGITS)


def _stripe(geometry: StripeGeometry) -> dict[str, Any]:
    return {
        "device": geometry.device,
        "level": geometry.level,
        "chunk_bytes": geometry.chunk_bytes,
        "offset_bytes": geometry.offset_bytes,
        "md_layout": geometry.layout,
    }


def _spread(spread: Spread) -> dict[str, Any]:
    return {
        "effective_members": rounded(spread.effective_members),
        "evenness": rounded(spread.evenness),
        "skew": rounded(spread.skew),
        "hottest_share": rounded(spread.hottest_share),
    }


def _member(member: MemberLoad) -> dict[str, Any]:
    return {
        "name": member.name,
        "block_bitmaps": member.block_bitmaps,
        "inode_bitmaps": member.inode_bitmaps,
        # The schema keeps this name; the number counts the tables that start here, not blocks.
        "inode_table_blocks": member.inode_tables,
        "descriptor_blocks": member.descriptor_blocks,
        "described_groups": member.described_groups,
        "bitmap_parity": member.bitmap_parity,
        "touch_parity": member.touch_parity,
        "bitmap_writes": member.bitmap_writes,
        "touches": member.touches,
    }


def filesystem_object(fs: Filesystem) -> dict[str, Any]:
    """Return one filesystem; `unknowns` lists which null values are unknown."""
    layout = None if fs.layout is None else for_wording(fs.layout, None)
    return {
        "id": fs.id,
        "device": fs.device,
        "device_number": str(fs.device_number),
        "uuid": fs.uuid,
        "label": fs.label,
        "fstype": for_wording(fs.fstype, None),
        "mounted": fs.alive,
        "mount_points": list(fs.mount_points),
        "read_only": for_wording(fs.read_only, None),
        "options": options_object(fs),
        "stack": _stack(fs),
        "layout": None if layout is None else layout_object(layout),
        "superblock_source": origin_of(fs.superblock) or None,
        "unknowns": [unknown_object(unknown) for unknown in _unknowns(fs)],
    }


def _unknowns(fs: Filesystem) -> Sequence[Unknown]:
    """Return the distinct unknowns of the filesystem itself, in the order of the keys."""
    facts = (fs.fstype, fs.read_only, fs.superblock, fs.options, fs.fstab, fs.stack, fs.layout)
    return tuple(dict.fromkeys(each for each in facts if isinstance(each, Unknown)))


def _stack(fs: Filesystem) -> list[dict[str, Any]]:
    if isinstance(fs.stack, Unknown):
        return []
    return [_device(fs, device) for device in fs.stack.value.walk()]


def _device(fs: Filesystem, device: BlockDevice) -> dict[str, Any]:
    sectors = for_wording(device.size_sectors, None)
    return {
        "name": device.name,
        "kind": device.kind,
        "device_number": str(device.device_number),
        "members": _members(device),
        "chunk_bytes": chunk_bytes(fs, device),
        "write_cache": for_wording(device.queue.write_cache, None),
        "rotational": for_wording(device.queue.rotational, None),
        "level": device.md_state.value.level if isinstance(device.md_state, Known) else None,
        "path": device.path,
        "size_bytes": None if sectors is None else sectors * SECTOR_BYTES,
        "model": device.model,
        "backing_file": None if device.loop is None else device.loop.backing_file,
        "dm_name": None if device.dm is None else device.dm.name,
    }


def _members(device: BlockDevice) -> list[str] | None:
    """Return the names of the component devices; those of an array are in slot order."""
    if isinstance(device.md, Known):
        return [member.name for member in device.md.value.members]
    if isinstance(device.below, Unknown):
        return None
    return [each.name for each in device.below.value]
