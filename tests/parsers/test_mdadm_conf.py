from __future__ import annotations

import pytest

from ext4audit.parsers.mdadm_conf import parse_md_arrays

CONF = """\
# mdadm.conf
HOMEHOST <system>
MAILADDR root
ARRAY /dev/md0 metadata=1.2 UUID=3aaa0122:29827cfa:5331ad66:ca767371
   name=db1:0
ARRAY <ignore> UUID=11111111:29827cfa:5331ad66:ca767371
array home level=raid1 # ARRAY /dev/md7
"""


def test_the_devices_of_array_lines_are_returned() -> None:
    """A continued line is no new one, an ignored array is none, a bare name is in /dev/md."""
    assert parse_md_arrays(CONF) == ("/dev/md0", "/dev/md/home")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ()),
        ("ARR /dev/md1\n", ("/dev/md1",)),
        ('ARRAY "/dev/md/a" UUID=1\n', ("/dev/md/a",)),
        ("ARRAY UUID=1:2:3:4\n", ()),
        ("ARRAY\n", ()),
        ("#ARRAY /dev/md1\n", ()),
        ("ARRAY\n\n  /dev/md3\n", ("/dev/md3",)),
        ("ARRAYS /dev/md1\nAR /dev/md2\n", ()),
        ("   ARRAY /dev/md4", ("/dev/md4",)),
    ],
)
def test_spelling(text: str, expected: tuple[str, ...]) -> None:
    """mdadm.conf(5): keywords in any case and cut to three letters, quotes, comments."""
    assert parse_md_arrays(text) == expected
