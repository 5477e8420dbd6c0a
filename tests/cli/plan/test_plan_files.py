"""`ext4audit plan` of files: several filesystems, policy, stdin, provisioning documents."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

import pytest

from ext4audit.cli import run_program
from ext4audit.cli.plans import KEYS
from ext4audit.facts.plan import DISK_KINDS, disk_kind, kernels_of, known_releases
from support.images.mke2fs import needs_e2fsprogs
from support.program import run

pytestmark = needs_e2fsprogs

TWO_FILESYSTEMS = """
kernel = "6.1.76"
mount-options = "noatime"
[[filesystem]]
size = "256M"
mount-point = "/a"
[[filesystem]]
size = "512M"
mount-point = "/b"
mount-options = "nobarrier"
write-cache = "back"
"""
CLOUD_CONFIG = """#cloud-config
disk_setup:
  /dev/nvme1n1: {table_type: gpt, layout: [25, 75]}
fs_setup:
  - {label: data, filesystem: ext4, device: /dev/nvme1n1, partition: 1, extra_opts: ["-m", "0"]}
mounts:
  - [LABEL=data, /srv/data, ext4, "defaults,noatime,nofail", "0", "2"]
"""


def test_each_filesystem_has_a_report(tmp_path: Path) -> None:
    """The most severe exit code wins; ndjson has a line for each."""
    file = tmp_path / "plan.toml"
    file.write_text(TWO_FILESYSTEMS)
    done = run("plan", str(file), "-f", "ndjson")
    assert done.returncode == 1
    reports = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each["filesystems"][0]["mount_points"] for each in reports] == [["/a"], ["/b"]]
    assert "mkfs" in reports[1]["plan"]["lines"]
    quiet = run("plan", str(file), "--ignore", "DUR001,PRF002", "-q")
    assert quiet.returncode == 0
    names = [line.partition(": ")[0] for line in quiet.stdout.splitlines()]
    assert names == ["/dev/sdX on /a", "/dev/sdX on /b"]


@pytest.mark.parametrize(
    ("last", "reported"),
    [
        ('mount-point = "/b"', "/b: a plan needs --size"),
        ('mount-point = "/b"\nsize = "x"', "/b: --size: "),
        ('device = "/dev/vdb"', "/dev/vdb: a plan needs --size"),
    ],
)
def test_error_names_the_filesystem_of_a_document(tmp_path: Path, last: str, reported: str) -> None:
    """One of several filesystems lacks a size."""
    file = tmp_path / "plan.toml"
    file.write_text(f'[[filesystem]]\nmount-point = "/a"\nsize = "1G"\n[[filesystem]]\n{last}\n')
    done = run("plan", str(file))
    assert (done.returncode, reported in done.stderr) == (2, True), done.stderr


def test_error_names_the_only_filesystem_of_a_kickstart_file(tmp_path: Path) -> None:
    """Other lines of the file are not planned."""
    file = tmp_path / "ks.cfg"
    file.write_text("part /boot --fstype=xfs --size=800\npart /home --fstype=ext4 --grow\n")
    assert "/home: a plan needs --size" in run("plan", "--from-kickstart", str(file)).stderr


@pytest.mark.parametrize("words", [["-f", "json"], ["-o", "FILE"]])
def test_several_reports_in_one_document_are_refused(tmp_path: Path, words: list[str]) -> None:
    """Neither JSON nor a file can contain two."""
    file = tmp_path / "plan.toml"
    file.write_text(TWO_FILESYSTEMS)
    done = run("plan", str(file), *words, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "several filesystems are one report each" in done.stderr


def test_plan_file_may_have_policy_keys(tmp_path: Path) -> None:
    """Each key is overridden by its flag."""
    file = tmp_path / "plan.toml"
    file.write_text(
        'size = "256M"\nkernel = "6.1.76"\nmount-options = "nobarrier"\nwrite-cache = "back"\n'
        'fail_on = "never"\nprofile = "tidb"\nignore = ["PRF002"]\n'
    )
    report = json.loads(run("plan", str(file), "-f", "json", "--allow-incomplete").stdout)
    rules = {verdict["rule"] for verdict in report["verdicts"]}
    assert "CMP007" in rules
    assert "PRF002" not in rules
    assert run("plan", str(file), "-q", "--allow-incomplete").returncode == 0
    assert run("plan", str(file), "-q", "--fail-on", "critical").returncode == 1


def test_plan_with_a_profile() -> None:
    """The printed lines satisfy its requirements."""
    words = "--size 256M --kernel 6.1.76 --profile tidb --select CMP007".split()
    done = run("plan", *words)
    assert "CMP007" in done.stdout
    assert "-o nodelalloc,noatime" in done.stdout


def test_plan_from_standard_input(tmp_path: Path) -> None:
    """A dash selects it, as in other commands."""
    file = tmp_path / "plan.toml"
    file.write_text('size = "256M"\nkernel = "6.1.76"\n')
    with file.open() as text:
        done = run("plan", "-", "-q", stdin=text)
    assert done.returncode == 0, done.stderr


def test_closed_standard_input_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The program may run under cron or as a service, which may close it."""
    monkeypatch.setattr(sys, "stdin", None)
    assert run_program(["plan", "-"]) == 2
    assert "-: standard input is closed" in capsys.readouterr().err


def test_three_flags_suffice_for_a_cloud_volume() -> None:
    """With size, option and distribution, no missing input can fail the plan."""
    words = "--size 2TB --mount-options noatime --os debian:12".split()
    assert run("plan", "-q", *words).returncode == 0
    shown = run("plan", *words, "--on", "aws-ebs").stdout
    assert "--size 2TB is 2000000000000 bytes, 1862.6 GiB" in shown
    assert "aws-ebs: EBS volumes on Nitro instances are NVMe devices; rotational = false" in shown
    assert "6.1.0-9-amd64 of 6.1.27-1" in shown


def test_plan_is_judged_for_oldest_and_newest_kernel() -> None:
    """Ubuntu 20.04 has 5.4, which does not know orphan_file, and 5.15, which does."""
    words = ["--size", "256M", "--select", "CMP002", "--mkfs", "-O orphan_file"]
    found = json.loads(run("plan", *words, "--os", "ubuntu:20.04", "-f", "json").stdout)
    (verdict,) = found["verdicts"]
    assert verdict["outcome"] == "fail"
    assert "Linux 5.4.0" in verdict["findings"][0]["message"]
    assert "^orphan_file" in found["plan"]["lines"]["mkfs"]
    assert run("plan", *words, "--os", "ubuntu:22.04", "-q").returncode == 0


def test_error_names_all_missing_flags() -> None:
    """This includes required flags and those that complete the plan."""
    assert "a plan needs --size and --chunk" in run("plan", "--raid0", "4").stderr
    words = "--raid0 4 --chunk 512K --size 1T --mount-options nobarrier".split()
    done = run("plan", *words, "--ignore", "LAY001")
    (line,) = [each for each in done.stderr.splitlines() if "to complete the plan" in each]
    assert "--kernel" in line
    assert "--write-cache back" in line


@pytest.mark.parametrize(
    ("words", "reported"),
    [
        (["--os", "plan9:4"], "its kernels are not listed here; give --kernel"),
        (["--os", "debian"], "--os debian: its kernels are not listed here"),
        (["--on", "floppy"], "floppy"),
        (["--page-size", "5K"], "Linux has pages of 4K, 16K and 64K"),
        (["--from-kickstart", "/proc/nonexistent"], "No such file"),
        (["x", "--from-kickstart", "y"], "ext4audit: the options --from-... with a file exclude"),
    ],
)
def test_unknown_value_is_refused(words: list[str], reported: str) -> None:
    """The error names the known values."""
    done = run("plan", "--size", "1G", *words)
    assert done.returncode == 2
    assert reported in done.stderr


@pytest.mark.parametrize(
    ("kernel", "page", "severity"),
    [
        ("6.1.0", [], "high"),
        ("6.1.0", ["--page-size", "64K"], None),
        ("5.14.0-427.el9.aarch64+64k", [], None),
        ("4.18.0-553.el8_10.ppc64le", [], None),
        ("6.19.2", [], "low"),
    ],
)
def test_page_size_by_kernel_and_option(kernel: str, page: list[str], severity: str | None) -> None:
    """It comes from the option, else from the release's architecture, else it is 4 KiB."""
    words = ["--size", "1G", "--mkfs", "-b 65536", "--select", "CMP008", "--kernel", kernel]
    (verdict,) = json.loads(run("plan", *words, *page, "-f", "json").stdout)["verdicts"]
    found = [finding["severity"] for finding in verdict["findings"]]
    assert found == ([] if severity is None else [severity])


def test_cloud_init_document(tmp_path: Path) -> None:
    """The partition gets its share of --size; the printed line has its options."""
    file = tmp_path / "user-data.yaml"
    file.write_text(CLOUD_CONFIG)
    words = ["--from-cloud-init", str(file), "--size", "4G", "--os", "debian:12"]
    done = run("plan", *words)
    assert done.returncode == 0, done.stderr
    assert "--size is not used" not in done.stderr
    assert "mkfs.ext4 -L data -m 0 /dev/nvme1n1p1" in done.stdout
    assert "-o noatime,nofail /dev/nvme1n1p1 /srv/data" in done.stdout
    report = json.loads(run("plan", *words, "-f", "json").stdout)
    assert report["filesystems"][0]["stack"][0].get("size_bytes", 1 << 30) == 1 << 30


MULTIPART = f"""Content-Type: multipart/mixed; boundary="B"
MIME-Version: 1.0

--B
Content-Type: text/x-shellscript

#!/bin/sh
--B
Content-Type: text/cloud-config

{CLOUD_CONFIG}
--B
Content-Type: text/x-include-url

https://example.com/more
--B--
"""


@pytest.mark.parametrize("raw", [MULTIPART.encode(), gzip.compress(MULTIPART.encode())])
def test_multipart_cloud_config(tmp_path: Path, raw: bytes) -> None:
    """Terraform's cloudinit_config makes such messages, also compressed; unread parts are named."""
    file = tmp_path / "user-data"
    file.write_bytes(raw)
    done = run("plan", "--from-cloud-init", str(file), "--size", "4G", "--os", "debian:12")
    assert done.returncode == 0, done.stderr
    assert "--size is not used" not in done.stderr
    assert "mkfs.ext4 -L data -m 0 /dev/nvme1n1p1" in done.stdout
    assert "not planned: a part is an #include" in done.stderr


def test_jinja_template_must_be_rendered_first(tmp_path: Path) -> None:
    """A YAML error would not mention jinja."""
    file = tmp_path / "user-data"
    file.write_text("## template: jinja\n#cloud-config\n{% if x %}\na: 1\n{% endif %}\n")
    done = run("plan", "--from-cloud-init", str(file), "--size", "4G")
    assert done.returncode == 2
    assert "it is a jinja template: render it first" in done.stderr


@pytest.mark.parametrize(
    ("lines", "sizes_mib"),
    [
        (["/a --size=300"], [300]),
        (["/a --size=300", "/b --size=1 --grow"], [300, 2048]),
    ],
)
def test_size_flag_does_not_replace_a_size_in_the_document(
    tmp_path: Path, lines: list[str], sizes_mib: list[int]
) -> None:
    """--size applies to a filesystem without a size in the document; otherwise it is unused."""
    file = tmp_path / "server.ks"
    file.write_text("".join(f"part {line} --fstype=ext4\n" for line in lines))
    words = ["--from-kickstart", str(file), "--size", "2G", "--select", "CAP002", "-f", "ndjson"]
    done = run("plan", *words, "--os", "debian:12")
    reports = [json.loads(line) for line in done.stdout.splitlines()]
    stacks = [report["filesystems"][0]["stack"][0] for report in reports]
    assert [stack["size_bytes"] >> 20 for stack in stacks] == sizes_mib
    assert ("--size is not used" in done.stderr) is (2048 not in sizes_mib)


HOSTILE_YAML = {
    "merge keys": "a: &a {x: 1}\nb: {<<: [*a, *a]}\n",
    "aliases": "a: &a [1]\nb: [" + ", ".join(["*a"] * 200) + "]\n",
    "deep": "[" * 100 + "]" * 100,
    "long": "[" + "1," * 60_000 + "]",
    "object": "!!python/object/apply:os.system ['true']\n",
    "garbage": "\x00",
    "tab": "a:\n\t- b: [",
}


def test_kubernetes_volume_capacity(tmp_path: Path) -> None:
    """The size is in the unit that nearly all manifests use."""
    pytest.importorskip("yaml")
    file = tmp_path / "volume.yaml"
    csi = "{driver: ebs.csi.aws.com, volumeHandle: vol-1, fsType: ext4}"
    spec = f"{{capacity: {{storage: 100Gi}}, mountOptions: [noatime], csi: {csi}}}"
    file.write_text(f"kind: PersistentVolume\nmetadata: {{name: pv}}\nspec: {spec}\n")
    done = run("plan", "--from-storage-class", str(file), "--os", "debian:12", "-f", "json")
    assert done.returncode == 0, done.stderr
    (fs,) = json.loads(done.stdout)["filesystems"]
    assert fs["mount_points"] == ["/mnt/pv"]
    assert fs["stack"][0]["size_bytes"] == 100 << 30


@pytest.mark.parametrize("name", HOSTILE_YAML)
@pytest.mark.parametrize("flag", ["--from-cloud-init", "--from-storage-class"])
def test_hostile_yaml_is_refused(tmp_path: Path, name: str, flag: str) -> None:
    """It is refused before anything is built; no Python object is created."""
    file = tmp_path / "hostile.yaml"
    file.write_text(HOSTILE_YAML[name])
    done = run("plan", flag, str(file), "--size", "1G")
    assert (done.returncode, done.stdout) == (2, "")
    assert "not YAML that can be read" in done.stderr
    assert "Traceback" not in done.stderr


def test_without_pyyaml_the_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """YAML support is an extra; everything else works without it."""
    monkeypatch.setitem(sys.modules, "yaml", None)
    assert run_program(["plan", "--from-cloud-init", "x", "--size", "1G"]) == 2
    assert "ext4audit[yaml]" in capsys.readouterr().err


def test_tables_are_complete() -> None:
    """Every release has kernels with a source, and every kind of disk has keys of a plan."""
    for release in known_releases():
        kernels = kernels_of(*release.split(":"))
        assert kernels, release
        assert all(each.source and each.confirmed for each in kernels)
    assert kernels_of("rocky", "9.4") == kernels_of("rhel", "9")
    assert kernels_of("amazon", "2") == kernels_of("amzn", "2")
    for name in DISK_KINDS:
        properties = disk_kind(name).properties
        assert set(properties) <= set(KEYS), name
        assert all(each.source and each.confirmed for each in properties.values())


@pytest.mark.parametrize(
    ("kernel", "value"),
    [
        (["--kernel", "6.12.30"], "max_sectors_kb = 1280 ("),
        (["--kernel", "6.17.1"], "max_sectors_kb = 4096 ("),
        (["--kernel", "5.14.0-427.el9.x86_64"], "max_sectors_kb is left open: 1280, from kernel"),
        (["--os", "debian:12"], "max_sectors_kb = 1280 ("),
        (["--os", "ubuntu:24.04"], "max_sectors_kb is left open: 1280, from kernel 6.17 on 4096"),
        ([], "max_sectors_kb is left open: 1280, from kernel 6.17 on 4096"),
    ],
)
def test_disk_value_that_depends_on_the_kernel(kernel: list[str], value: str) -> None:
    """If the plan's kernels differ, or a vendor backports changes, the value is left open."""
    words = ["--size", "256M", "--select", "CMP002", "--on", "hdd", *kernel]
    assert value in run("plan", *words).stdout


def test_plan_reports_unconfirmed_kernels() -> None:
    """The kernel is printed with its source, which does not confirm it."""
    shown = run("plan", "--size", "256M", "--select", "CMP002", "--os", "alinux:3").stdout
    (kernels,) = [line for line in shown.splitlines() if "runs its own kernels" in line]
    assert kernels.count("; not confirmed)") == 1


@pytest.mark.parametrize(
    ("words", "is_assumed"),
    [(("256M",), True), (("256M", "--mkfs", "-b 1024"), False), (("512M",), False)],
)
def test_small_filesystem_reports_the_assumed_sector_size(
    words: tuple[str, ...], *, is_assumed: bool
) -> None:
    """On disks with sectors of 4096 bytes, mke2fs does not make smaller blocks."""
    shown = run("plan", "--size", *words).stdout
    assert ("sectors of 512 bytes" in shown) is is_assumed
