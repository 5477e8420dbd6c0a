from __future__ import annotations

import base64
import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext4audit.evidence import Unknown
from ext4audit.facts.host import Filesystem
from ext4audit.facts.mount import EffectiveOption, EffectiveOptions, Layer, Provenance
from ext4audit.renderers.json_v1 import render_report
from ext4audit.report import Report
from support.builders import (
    UNREAD,
    UUID,
    filesystem,
    fstab_entry,
    host,
    known,
    layout,
    mount,
    options,
    unknown,
)
from support.examples import examples
from support.formats.sample_reports import (
    HOSTILE_NAMES,
    barriers,
    boot,
    changed,
    critical_report,
    edits,
    hostile_report,
    hotspot,
    incomplete_report,
    inodes,
    md127,
    old_kernel,
    report,
    root,
)

FORBIDDEN = "rich click pyudev jsonschema"


def json_document(of: Report) -> Any:
    """Render reports as JSON and parse the result."""
    return json.loads(render_report(of, tool_version="0.1.0"))


def only_filesystem(fs: Filesystem) -> Any:
    """Render a host with one filesystem and return that filesystem."""
    return json_document(report(host(fs)))["filesystems"][0]


def without_originals(value: Any) -> Any:
    """Return a value without its `_b64` members."""
    if isinstance(value, dict):
        kept = {key: each for key, each in value.items() if not key.endswith("_b64")}
        return {key: without_originals(each) for key, each in kept.items()}
    return [without_originals(each) for each in value] if isinstance(value, list) else value


def test_top_level_members() -> None:
    """The top-level members follow the contract's order, with later additions last."""
    whole = json_document(critical_report())
    assert list(whole) == [
        "schema_version",
        "tool",
        "source",
        "host",
        "complete",
        "summary",
        "filesystems",
        "verdicts",
        "gaps",
        "fixed",
        "notices",
        "profiles",
        "policy",
        "knowledge",
    ]
    del whole["filesystems"], whole["verdicts"]
    expected = {
        "schema_version": "1.1",
        "tool": {"name": "ext4audit", "version": "0.1.0"},
        "source": {
            "kind": "live",
            "label": "this host",
            "taken_at": "2026-01-02T03:04:05Z",
            "key": "db1",
            "groups": [],
        },
        "host": {
            "name": "db1",
            "kernel_release": "6.1.0-18-amd64",
            "os_id": "debian",
            "os_version": "12",
            "virtualization": None,
            "container": None,
            "os_name": "Debian GNU/Linux 12",
        },
        "complete": True,
        "summary": {
            "pass": 5,
            "fail": 2,
            "not_applicable": 2,
            "undetermined": 0,
            "error": 0,
            "suppressed": 0,
            "findings": {"critical": 1, "high": 0, "medium": 1, "low": 0, "info": 0},
            "known": 0,
            "fixed": None,
        },
        "gaps": [],
        "fixed": None,
        "notices": [],
        "profiles": [],
        "policy": None,
        "knowledge": [],
    }
    assert json.dumps(whole) == json.dumps(expected)


def test_failed_verdict_has_finding_evidence_and_remedy() -> None:
    """A verdict lists everything down to each command, in the contract's order."""
    expected = {
        "rule": "LAY001",
        "name": "striped-metadata-hotspot",
        "filesystem": "u-md127",
        "outcome": "fail",
        "findings": [
            {
                "severity": "medium",
                "confidence": "likely",
                "message": "All bitmaps lie on 1 of 2 disks.",
                "evidence": [{"label": "skew", "value": "2.00", "origin": "dumpe2fs /dev/md127"}],
                "remedies": [
                    {
                        "summary": "Make the filesystem anew.",
                        "disruption": "recreate",
                        "destructive": True,
                        "trade_off": None,
                        "steps": [
                            {"phase": "persistent", "command": "mkfs.ext4 -g 32744 /dev/md127"}
                        ],
                        "diff": [],
                    }
                ],
                "fact": "",
                "suppression": None,
                "known": False,
                "summary": "All bitmaps lie on 1 of 2 disks.",
                "device": "/dev/md127",
                "mount_point": "/mnt/a\x1b[b",
            }
        ],
        "unknowns": [],
        "note": None,
        "suppression": None,
        "evidence": [],
    }
    (verdict,) = json_document(report(host(md127()), hotspot))["verdicts"]
    assert json.dumps(verdict) == json.dumps(expected)


def test_finding_has_subject_and_summary() -> None:
    """The subject is null for the host; the mount point is null for an unmounted filesystem."""
    short = changed(
        report(host(filesystem(mounts=())), hotspot, edits, old_kernel),
        lambda _, finding: finding._replace(summary="In short."),
    )
    found = [
        finding for verdict in json_document(short)["verdicts"] for finding in verdict["findings"]
    ]
    subjects = [(each["device"], each["mount_point"], each["summary"]) for each in found]
    assert subjects == [("/dev/sda", None, "In short."), (None, None, "In short.")]


@pytest.mark.parametrize(
    ("fact", "subject"),
    [
        ("/data", ("/dev/sda", "/data")),
        ("/again", ("/dev/sda", "/data")),
        (UUID, ("/dev/sda", "/data")),
        ("/backup", (None, "/backup")),
        ("LABEL=x", (None, None)),
        ("", (None, None)),
    ],
)
def test_subject_of_a_host_finding(fact: str, subject: tuple[str | None, str | None]) -> None:
    """The fact of an fstab rule is a mount point; without a mounted filesystem device is null."""
    fs = filesystem(mounts=(mount(), mount("/again", mount_id=31)))
    of = changed(report(host(fs), old_kernel), lambda _, finding: finding._replace(fact=fact))
    (verdict,) = json_document(of)["verdicts"]
    (found,) = verdict["findings"]
    assert (found["device"], found["mount_point"]) == subject


@pytest.mark.parametrize(("fact", "device"), [("/data", "/dev/sda"), ("/backup", None)])
def test_equal_findings_have_the_same_subject(fact: str, device: str | None) -> None:
    """Two equal lines of fstab are two findings about one mount point: only the facts differ."""
    of = changed(
        report(host(filesystem()), old_kernel),
        lambda _, finding: finding._replace(fact=fact, number=2),
    )
    (verdict,) = json_document(of)["verdicts"]
    (found,) = verdict["findings"]
    assert (found["device"], found["mount_point"], found["fact"]) == (device, fact, f"{fact} #2")


def test_finding_about_a_copy_names_its_device() -> None:
    """A finding about the copy names its device, so that nobody runs e2fsck on the mounted one."""
    of = changed(
        report(host(filesystem()), old_kernel),
        lambda _, finding: finding._replace(fact=UUID, device="/dev/mapper/vg-snap"),
    )
    (verdict,) = json_document(of)["verdicts"]
    (found,) = verdict["findings"]
    assert (found["device"], found["mount_point"]) == ("/dev/mapper/vg-snap", None)


def test_diff_of_file_changes() -> None:
    """A changed line has its number and both versions; a new file has only its content."""
    (verdict,) = json_document(report(host(root()), edits))["verdicts"]
    (remedy,) = verdict["findings"][0]["remedies"]
    assert remedy["diff"] == [
        {
            "path": "/etc/fstab",
            "line_number": 7,
            "before": "/dev/sda\t/data\text4\tdefaults,nodelalloc 0 2",
            "after": "/dev/sda\t/data\text4\tdefaults 0 2",
        },
        {
            "path": "/etc/new",
            "line_number": None,
            "before": None,
            "after": "a = 1\n\nb = 2\n",
        },
    ]
    undone = [step["command"] for step in remedy["steps"] if step["phase"] == "rollback"]
    assert undone == ["umount /data", "mount /data || mount -a"]


def test_line_that_is_not_utf_8_has_base64() -> None:
    """Like any text of the format, the line has U+FFFD, and base64 of its bytes beside it."""
    name = HOSTILE_NAMES["byte 0xff"]
    (verdict, *_) = json_document(hostile_report(name))["verdicts"]
    (change,) = verdict["findings"][0]["remedies"][0]["diff"]
    assert change["before"] == "/mnt/\ufffd\ufffd before"
    assert base64.b64decode(change["before_b64"]) == b"/mnt/\xff\xfe before"


def test_reasons_of_the_other_outcomes() -> None:
    """A pass has its evidence, a not-applicable its reason, an undetermined its unknown facts."""
    passed, spared = json_document(report(host(root()), barriers, hotspot))["verdicts"]
    assert passed["outcome"] == "pass"
    assert passed["evidence"] == [
        {"label": "barrier", "value": "barrier", "origin": "/proc/fs/ext4/sda/options"}
    ]
    assert (spared["outcome"], spared["note"]) == ("not_applicable", "no stripe lies below")
    (open_,) = json_document(report(host(filesystem(superblock=UNREAD)), inodes))["verdicts"]
    assert open_["outcome"] == "undetermined"
    assert open_["unknowns"] == [
        {
            "what": "something",
            "why": "denied",
            "detail": "permission denied",
            "hint": "run as root",
        }
    ]


def test_filesystem_of_a_host_verdict_is_null() -> None:
    """The `filesystem` of a host rule's verdict is null, also on a host without ext4."""
    whole = json_document(report(host(), old_kernel))
    assert whole["filesystems"] == []
    assert whole["verdicts"][0]["filesystem"] is None


def test_incomplete_audit() -> None:
    """Undetermined verdicts, errors and gaps are counted and shown."""
    whole = json_document(incomplete_report())
    assert whole["complete"] is False
    assert (whole["summary"]["undetermined"], whole["summary"]["error"]) == (2, 2)
    assert whole["gaps"] == [
        {
            "what": "the mount table of PID 1",
            "why": "timed_out",
            "detail": "after 10 s",
            "hint": "",
        }
    ]
    assert whole["verdicts"][1]["note"].endswith("KeyError: 'sd'\n")


MEMBER_MORE = ("descriptor_blocks", "described_groups", "bitmap_parity", "touch_parity")
UNEVEN_SPREAD = {"effective_members": 1.0, "evenness": 0.5, "skew": 2.0, "hottest_share": 1.0}
EVEN_SPREAD = {"effective_members": 2.0, "evenness": 1.0, "skew": 1.0, "hottest_share": 0.5}


def test_members_of_a_filesystem() -> None:
    """The members of a filesystem, its stack and its layout are complete and in order."""
    fs = only_filesystem(md127("/data"))
    assert list(fs["options"]) == [
        "effective",
        "source",
        "mount_table",
        "superblock_defaults",
        "hidden",
        "fstab",
        "complete",
        "provenance",
        "unknown",
    ]
    del fs["options"], fs["stack"][1:]
    expected = {
        "id": "u-md127",
        "device": "/dev/md127",
        "device_number": "9:127",
        "uuid": "u-md127",
        "label": None,
        "fstype": "ext4",
        "mounted": True,
        "mount_points": ["/data", "/srv"],
        "read_only": False,
        "stack": [
            {
                "name": "md127",
                "kind": "raid0",
                "device_number": "9:127",
                "members": ["vdb", "vdc"],
                "chunk_bytes": 524288,
                "write_cache": "write back",
                "rotational": True,
                "level": "raid0",
                "path": "/dev/md127",
                "size_bytes": 107374182400,
                "model": None,
                "backing_file": None,
                "dm_name": None,
            }
        ],
        "layout": {
            "block_bytes": 4096,
            "blocks_per_group": 32768,
            "groups": 9594,
            "flex_bg_groups": 16,
            "members": [
                {
                    "name": "vdb",
                    "block_bitmaps": 100,
                    "inode_bitmaps": 100,
                    "inode_table_blocks": 0,
                    **dict.fromkeys(MEMBER_MORE, 0),
                    "bitmap_writes": 200,
                    "touches": 200,
                },
                {
                    "name": "vdc",
                    "block_bitmaps": 0,
                    "inode_bitmaps": 0,
                    "inode_table_blocks": 0,
                    **dict.fromkeys(MEMBER_MORE, 0),
                    "bitmap_writes": 0,
                    "touches": 0,
                },
            ],
            "skew": 2.0,
            "effective_members": 1.0,
            "evenness": 0.5,
            "cluster_blocks": 1,
            "size_blocks": 314376192,
            "basis": "descriptors",
            "stripe": {
                "device": "md127",
                "level": "raid0",
                "chunk_bytes": 524288,
                "offset_bytes": 0,
                "md_layout": None,
            },
            "bitmaps": UNEVEN_SPREAD,
            "bitmap_data": UNEVEN_SPREAD,
            "inode_tables": EVEN_SPREAD,
            "descriptors": EVEN_SPREAD,
            "touches": UNEVEN_SPREAD,
            "doubts": [],
        },
        "superblock_source": "dumpe2fs -h /dev/sda",
        "unknowns": [],
    }
    assert json.dumps(fs) == json.dumps(expected)


def test_ratios_have_four_decimals() -> None:
    """Ratios have four decimals, so that two runs can be compared as text."""
    shown = only_filesystem(filesystem(layout=known(layout([200, 100, 100]))))["layout"]
    assert (shown["skew"], shown["effective_members"], shown["evenness"]) == (1.5, 2.6667, 0.8889)


def test_layout_without_a_stripe_and_with_unknowns() -> None:
    """`stripe` is null if nothing is striped, and each doubt has the members of an unknown."""
    measured = layout([1])._replace(geometry=None, basis="computed", doubts=(UNREAD,))
    shown = only_filesystem(filesystem(layout=known(measured)))["layout"]
    assert (shown["stripe"], shown["basis"]) == (None, "computed")
    assert [doubt["what"] for doubt in shown["doubts"]] == ["something"]


def test_stack_lists_devices_from_the_top() -> None:
    """The stack lists each device once from the top down, with what each is made of."""
    stack = only_filesystem(root())["stack"]
    assert [(each["name"], each["members"], each["dm_name"]) for each in stack] == [
        ("dm-0", ["nvme0n1p2"], "vg0-root"),
        ("nvme0n1p2", ["sda"], None),
        ("sda", [], None),
    ]


def test_complete_options_have_provenance() -> None:
    """If the source shows every option, `effective` lists them with their provenance."""
    layer = Layer(Provenance.SUPERBLOCK_BITS, "nobarrier", "dumpe2fs -h /dev/sda")
    option = EffectiveOption(
        "barrier",
        "nobarrier",
        "/proc/fs/ext4/sda/options",
        Provenance.SUPERBLOCK_BITS,
        hidden=True,
        baseline="barrier",
        layers=(layer,),
    )
    effective = EffectiveOptions("/proc/fs/ext4/sda/options", True, (option,), ("rw",))
    entry = fstab_entry("noatime", mount_point="/elsewhere")
    fs = filesystem(options=known(effective), fstab=known((entry, fstab_entry())))
    expected = {
        "effective": ["nobarrier"],
        "source": "/proc/fs/ext4/sda/options",
        "mount_table": ["rw"],
        "superblock_defaults": ["user_xattr", "acl"],
        "hidden": ["nobarrier"],
        "fstab": ["defaults"],
        "complete": True,
        "provenance": [
            {
                "option": "barrier",
                "in_force": "nobarrier",
                "set_by": "superblock_default_mount_options",
                "origin": "/proc/fs/ext4/sda/options",
                "hidden": True,
                "baseline": "barrier",
                "layers": [
                    {
                        "set_by": "superblock_default_mount_options",
                        "token": "nobarrier",
                        "origin": "dumpe2fs -h /dev/sda",
                    }
                ],
            }
        ],
        "unknown": None,
    }
    assert json.dumps(only_filesystem(fs)["options"]) == json.dumps(expected)


def test_incomplete_options_are_null() -> None:
    """If the source does not show every option, `effective` is null and `unknown` is set."""
    shown = only_filesystem(filesystem(options=known(options("nodelalloc", complete=False))))
    assert shown["options"]["effective"] is None
    assert shown["options"]["complete"] is False
    assert [each["in_force"] for each in shown["options"]["provenance"]] == ["nodelalloc"]
    assert shown["options"]["unknown"]["what"] == "the effective options"


def test_unknowns_are_null_and_listed() -> None:
    """Missing evidence is null, and each piece is listed once in `unknowns`."""
    names = ("fstype", "read_only", "superblock", "options", "fstab", "stack", "layout")
    missing: dict[str, Unknown] = {name: unknown(name) for name in names}
    fs = only_filesystem(filesystem(**missing, mounts=(mount(super_options=("rw", "discard")),)))
    assert [each["what"] for each in fs["unknowns"]] == list(names)
    assert (fs["fstype"], fs["read_only"], fs["superblock_source"]) == (None, None, None)
    assert (fs["stack"], fs["layout"]) == ([], None)
    assert fs["options"] == {
        "effective": None,
        "source": None,
        "mount_table": ["rw", "discard"],
        "superblock_defaults": None,
        "hidden": [],
        "fstab": None,
        "complete": False,
        "provenance": [],
        "unknown": {
            "what": "options",
            "why": "denied",
            "detail": "permission denied",
            "hint": "run as root",
        },
    }


def test_unknown_of_several_members_is_listed_once() -> None:
    """One unknown that causes two nulls is one entry in `unknowns`."""
    fs = only_filesystem(filesystem(superblock=UNREAD, fstab=UNREAD))
    assert len(fs["unknowns"]) == 1


def test_unmounted_filesystem_has_empty_mount_lists() -> None:
    """Without a mount in our namespace, the mount points and the mount table are empty lists."""
    here = filesystem(mounts=(), options=UNREAD, fstab=known(()))
    fs = only_filesystem(here)
    assert (fs["mounted"], fs["mount_points"]) == (True, [])
    assert (fs["options"]["mount_table"], fs["options"]["fstab"]) == ([], None)


def test_unknown_kernel_and_os_are_null() -> None:
    """An unknown kernel and operating system are null, not an empty string."""
    shown = json_document(report(host(boot(), kernel=UNREAD, os=UNREAD)))["host"]
    assert (shown["kernel_release"], shown["os_id"], shown["os_version"]) == (None, None, None)


@pytest.mark.parametrize("name", HOSTILE_NAMES.values(), ids=HOSTILE_NAMES)
def test_hostile_names_are_ascii_json(name: str) -> None:
    """Any name yields pure ASCII that any JSON reader accepts, without a lone surrogate."""
    text = render_report(hostile_report(name), tool_version="0.1.0")
    assert text.isascii()
    assert text.endswith("}\n")
    json.dumps(json.loads(text), ensure_ascii=False).encode("utf-8")


def test_name_that_is_not_utf8_has_base64() -> None:
    """A bad name has U+FFFD and a base64 member right after it; lists have a parallel list."""
    fs = json_document(hostile_report("/mnt/\udcff"))["filesystems"][0]
    assert fs["mount_points"] == ["/mnt/\ufffd", "/srv"]
    assert fs["mount_points_b64"] == ["L21udC//", None]
    assert (fs["device"], fs["device_b64"]) == ("/mnt/\ufffd", "L21udC//")
    assert list(fs)[:4] == ["id", "id_b64", "device", "device_b64"]
    assert "fstype_b64" not in fs


@given(st.binary(min_size=1))
@examples(25)
def test_any_bytes_round_trip(raw: bytes) -> None:
    """The original bytes of any name can be recovered from the JSON."""
    device = filesystem(device=raw.decode("utf-8", "surrogateescape"))
    fs = json_document(report(host(device)))["filesystems"][0]
    original = fs.get("device_b64")
    shown = base64.b64decode(original) if original else fs["device"].encode("utf-8")
    assert shown == raw


def test_valid_name_has_no_base64() -> None:
    """A valid name has no `_b64` member at all."""
    whole = json_document(hostile_report("/mnt/Übung"))
    assert without_originals(whole) == whole


def test_rendering_json_loads_no_slow_library() -> None:
    """A fresh interpreter renders JSON without rich, click, pyudev or jsonschema."""
    program = (
        "import sys, ext4audit.renderers.json_v1 as j; j.schema_text();"
        f"print(sorted(set('{FORBIDDEN}'.split()) & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
