"""Lists of expected hosts."""

from __future__ import annotations

from pathlib import Path

import pytest

from ext4audit.sources import inventory
from ext4audit.sources.containers import ArchiveError
from ext4audit.sources.inventory import expected_names

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
    ],
    ids="plain ini list-hosts two-ranges bytes".split(),
)
def test_names_of_hosts_are_read(tmp_path: Path, text: bytes, names: tuple[str, ...]) -> None:
    """A name a line, an Ansible inventory, or what `ansible --list-hosts` prints."""
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
    ],
)
def test_what_lists_no_hosts_is_an_error(
    tmp_path: Path, text: bytes, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A range can be as long as a line is short."""
    monkeypatch.setattr(inventory, "MOST_HOSTS", 5)
    monkeypatch.setattr(inventory, "LARGEST_BYTES", 100)
    path = tmp_path / "hosts"
    path.write_bytes(text)
    with pytest.raises(ArchiveError, match=f"^{path}: .*{message}"):
        expected_names(str(path))
