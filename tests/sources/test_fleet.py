"""The hosts in a directory, and their keys."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from ext4audit.sources import ArchiveError, fleet
from ext4audit.sources.captured import BEGIN, exists, key_of
from ext4audit.sources.fleet import FoundHost, expected_names, hosts_in, looks_like_evidence
from support.hosts.fixture_hosts import HOSTS

MANIFEST = b'{\n  "format": "ext4audit-snapshot", "version": 1'
TEXT = b"motd\n" + BEGIN.encode() + b"\n"


def tree(top: Path, **files: bytes) -> str:
    """Write files; "__" in a key is "/" in the path, and "_DOT_" is "."."""
    for name, content in files.items():
        path = top / name.replace("__", "/").replace("_DOT_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return str(top)


def found(top: str) -> list[tuple[str, str | None]]:
    """Return the hosts in a directory: paths below it, and keys."""
    fleet = hosts_in(top)
    assert fleet is not None
    return [(path.removeprefix(f"{top}/"), key) for path, key in fleet.hosts]


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("db1.tar.gz", "db1"),
        ("a/db1.TGZ", "db1"),
        ("a/db1.json.gz", "db1"),
        ("a/db1.txt", "db1"),
        ("/a/db1/", "db1"),
        ("db1.example.com", "db1.example.com"),
        ("db1.example.com.tar.xz", "db1.example.com"),
        (".tar", ".tar"),
        ("sosreport-db1.tar.xz", "sosreport-db1"),
        ("hosts/db1/snapshot/", "db1"),
        ("hosts/db1/archive", "db1"),
        ("snapshot", None),
        ("./snapshot", None),
        ("-", None),
        (".", None),
        ("a/..", None),
        ("/", None),
        ("/dev/fd/63", None),
        ("/dev/stdin", None),
        ("/proc/self/fd/63", None),
        ("a\nb\udcff.tar", "a\nb\udcff"),
    ],
)
def test_a_key_is_the_name_of_the_file(path: str, key: str | None) -> None:
    """The extension of a snapshot is removed, and the number of a descriptor is not a name."""
    assert key_of(path) == key


def test_a_directory_of_hosts_differs_from_a_host(tmp_path: Path) -> None:
    """A directory with a manifest, or with another program's files, is one host."""
    (tmp_path / "sos" / "sos_commands").mkdir(parents=True)
    top = tree(tmp_path, b__manifest_DOT_json=MANIFEST, a_DOT_tgz=b"x", _DOT_hidden=b"")
    assert found(top) == [("a.tgz", "a"), ("b", "b"), ("sos", "sos")]
    assert [hosts_in(f"{top}/{name}") for name in ("a.tgz", "b", "sos")] == [None, None, None]
    assert hosts_in("-") is None


def test_a_directory_without_hosts_is_an_error(tmp_path: Path) -> None:
    """Nothing was audited there, and other files are not hosts."""
    for top in (str(tmp_path), tree(tmp_path, README=b"about")):
        with pytest.raises(ArchiveError, match=r": holds no snapshot$"):
            hosts_in(top)


def test_a_fetch_tree_of_ansible_has_its_hosts_first(tmp_path: Path) -> None:
    """`fetch` writes HOST/PATH/FILE; a host whose capture failed has a folder without a file."""
    (tmp_path / "db03" / "tmp").mkdir(parents=True)
    top = tree(
        tmp_path,
        db01__tmp__x_DOT_tar=b"x",
        db02__data__backup__x_DOT_tar_DOT_gz=b"x",
        db02__data__backup__x_DOT_log=b"done",
    )
    assert found(top) == [
        ("db01/tmp/x.tar", "db01"),
        ("db02/data/backup/x.tar.gz", "db02"),
        ("db03", "db03"),
    ]


def test_a_zip_is_a_host_that_cannot_be_read(tmp_path: Path) -> None:
    """It is not read, but it was meant as evidence: a fleet must not be one host smaller."""
    top = tree(tmp_path, db1_DOT_tar=b"x", db2_DOT_zip=b"PK\x03\x04")
    assert found(top) == [("db1.tar", "db1"), ("db2.zip", "db2.zip")]


def test_two_snapshots_of_one_folder_have_one_key(tmp_path: Path) -> None:
    """The caller rejects them, as the key is ambiguous."""
    top = tree(tmp_path, db1__a_DOT_tar=b"x", db1__b_DOT_tar=b"x")
    assert found(top) == [("db1/a.tar", "db1"), ("db1/b.tar", "db1")]


def test_core_collections_of_insights_are_one_host(tmp_path: Path) -> None:
    """Their files are in `data`, a name that is also used for mount points of databases."""
    (tmp_path / "one" / "data" / "insights_commands").mkdir(parents=True)
    assert hosts_in(str(tmp_path / "one")) is None
    assert found(str(tmp_path)) == [("one", "one")]


def test_a_folder_of_one_host_with_more_than_its_evidence(tmp_path: Path) -> None:
    """A fixture's folder holds reports beside the snapshot, and has the name of the host."""
    fixture = str(HOSTS / "healthy-debian-12")
    assert found(fixture) == [("snapshot", "healthy-debian-12")]
    assert dict(found(str(HOSTS)))["healthy-debian-12/snapshot"] == "healthy-debian-12"
    tree(tmp_path, snapshot__manifest_DOT_json=MANIFEST, db2_DOT_tar=b"x")
    with pytest.raises(ArchiveError, match=r"more than one host: .*/snapshot, .*/db2\.tar"):
        hosts_in(str(tmp_path))


@pytest.mark.parametrize(
    ("name", "start", "meant"),
    [
        ("db1.example.com", MANIFEST, True),
        ("db1", b' {"changed": true, "stdout": "', True),
        ("db1", TEXT, True),
        ("db1", gzip.compress(b"x", mtime=0), True),
        ("db1", b"\x28\xb5\x2f\xfd", True),
        ("hosts.xlsx", b"PK\x03\x04", False),
        ("db1", b"", True),
        ("db1.txt", b"sudo: a password is required", True),
        ("README", b"About these hosts", False),
        ("README.txt", b"About these hosts", False),
        ("run.log", b"ok", False),
        ("expected.json", b'{\n  "schema_version": "1.1",', False),
        ("x.sarif", b'{"$schema": "https://', False),
        ("sosreport-host0-x-private_map", b'{\n    "hostname_map": {\n        "vm": "h', False),
        ("db1", b'{"message": "Connection refused"}', True),
        ("x.gitlab", b"[\n", False),
    ],
)
def test_files_beside_snapshots_are_ignored(
    name: str, start: bytes, *, meant: bool, tmp_path: Path
) -> None:
    """Files left by a failed capture are not ignored: the host must be reported as unread."""
    assert looks_like_evidence(f"x.d/{name}", start) is meant
    (tmp_path / name).write_bytes(start)
    (tmp_path / "other.tar").touch()
    fleet = hosts_in(str(tmp_path))
    assert fleet is not None
    assert FoundHost(f"{tmp_path}/other.tar", "other") in fleet.hosts
    assert fleet.ignored == ([] if meant else [f"{tmp_path}/{name}"])


def test_the_folders_of_sos_collect_are_no_hosts(tmp_path: Path) -> None:
    """The unpacked archive of sos collect also has a log and a manifest, which are not hosts."""
    tree(tmp_path, sos_logs__ui_DOT_log=b"x", sos_reports__manifest_DOT_json=b"{}", a_DOT_tar=b"x")
    fleet = hosts_in(str(tmp_path))
    assert fleet is not None
    assert fleet.hosts == [FoundHost(f"{tmp_path}/a.tar", "a")]
    assert fleet.ignored == [f"{tmp_path}/sos_logs", f"{tmp_path}/sos_reports"]


def test_an_encrypted_archive_is_of_a_host_that_could_not_be_read(tmp_path: Path) -> None:
    """`sos report --encrypt` makes it; ignoring the file would hide a host."""
    top = tree(tmp_path, b_DOT_tar_DOT_xz_DOT_gpg=b"\x85\x02\x0c", a_DOT_tar=b"x")
    assert found(top) == [("a.tar", "a"), ("b.tar.xz.gpg", "b.tar.xz.gpg")]


def test_links_in_a_host_s_folder_are_not_followed(tmp_path: Path) -> None:
    """A host can send a link to anywhere, even a cyclic one."""
    top = tmp_path / "fleet"
    tree(tmp_path, secret__manifest_DOT_json=MANIFEST, fleet__db1__x_DOT_tar=b"x")
    (top / "db1" / "circle").symlink_to(top)
    (top / "db1" / "other").symlink_to(tmp_path / "secret")
    assert found(str(top)) == [("db1/x.tar", "db1")]


def test_a_report_is_no_evidence(tmp_path: Path) -> None:
    """A report that was written beside the snapshots does not become a host."""
    report = json.dumps({"schema_version": "1.1", "tool": {}}).encode()
    top = tree(tmp_path, report_DOT_json=report, db1_DOT_json=MANIFEST)
    assert found(top) == [("db1.json", "db1")]


def test_a_path_that_cannot_be_is_an_error() -> None:
    """No file name contains NUL."""
    assert exists("/")
    assert not exists("/none")
    for call in (exists, hosts_in):
        with pytest.raises(ArchiveError, match="a name cannot hold NUL"):
            call("a\0b")


INI = b"""\xef\xbb\xbf# our hosts
; others
db1 ansible_host=10.0.0.1   # the first
[web:vars]
ansible_user=root
[web]  # group
web[09:11].example.com ansible_port=22
db1
[all:children]
web
"""


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (b"db1\n\n  db2  \r\n#db3\n", ("db1", "db2")),
        (INI, ("db1", "web09.example.com", "web10.example.com", "web11.example.com")),
        (b"  hosts (2):\n    db1\n    db2\n", ("db1", "db2")),
        (b"r[1:2]n[01:02]", ("r1n01", "r1n02", "r2n01", "r2n02")),
        (b"db\xff", ("db\udcff",)),
        (b"db1:2222\nw[1:2]:22\nfe80::1\nfe80::\n", ("db1", "w1", "w2", "fe80::1", "fe80::")),
    ],
    ids="plain ini list-hosts two-ranges bytes ports".split(),
)
def test_names_of_hosts_are_read(tmp_path: Path, text: bytes, names: tuple[str, ...]) -> None:
    """One name per line, an Ansible inventory, and the output of `ansible --list-hosts`."""
    (tmp_path / "hosts").write_bytes(text)
    assert expected_names(str(tmp_path / "hosts")) == names


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "lists no host"),
        (b"[web]\n", "lists no host"),
        (b"db[a:f]", r"db\[a:f\]: only ranges of numbers are read"),
        (b"db[2:1]", "lists no host"),
        (b"db[0:999999999]", "more than 5 hosts"),
        (b"x" * 101, "larger than "),
        (b"a" + b"[0:0]" * 9, "more than 8 ranges in a name"),
        (b"all:\n  hosts:\n    db1:\n", "'all:': not a list of hosts; of an inventory in YAML"),
        (b'{"web":{"hosts":{}}}', "not a list of hosts"),
        (b"---\nweb:\n", "'---': not a list of hosts"),
        (b'{\n  "_meta": {}\n}', "'{': not a list of hosts"),
        (b"@all:\n  |--db1\n", "'@all:': not a list of hosts"),
    ],
)
def test_what_lists_no_hosts_is_an_error(
    tmp_path: Path, text: bytes, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A short line can hold a very long range."""
    monkeypatch.setattr(fleet, "MOST_HOSTS", 5)
    monkeypatch.setattr(fleet, "LARGEST_BYTES", 100)
    path = tmp_path / "hosts"
    path.write_bytes(text)
    with pytest.raises(ArchiveError, match=f"^{path}: .*{message}"):
        expected_names(str(path))
