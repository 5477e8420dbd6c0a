from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext4audit.parsers.escapes import decode_octal, split_options

FROM_A_HOST = st.binary(max_size=40).map(lambda raw: raw.decode("utf-8", "surrogateescape"))


@pytest.mark.parametrize(
    ("escaped", "name"),
    [
        ("plain", "plain"),
        (r"with\040blank", "with blank"),
        (r"tab\011newline\012", "tab\tnewline\n"),
        (r"back\134slash", "back\\slash"),
        (r"\134040", r"\040"),
        (r"\303\244", "ä"),
        ("ü\\040x", "ü x"),
        (r"\377", "\udcff"),
        ("\udcff\\040", "\udcff "),
        ("\udcc3\\244", "ä"),
        (r"src\040\0431", "src #1"),
        (r"\04", r"\04"),
        (r"\089", r"\089"),
        ("\\", "\\"),
        ("", ""),
    ],
)
def test_octal_escapes_are_bytes(escaped: str, name: str) -> None:
    """An escape stands for a byte; what is not three octal digits stays."""
    assert decode_octal(escaped) == name


@given(FROM_A_HOST)
def test_what_the_kernel_escapes_comes_back(name: str) -> None:
    """Escaping as mangle_path() does, and decoding, gives the name back."""
    escaped = "".join(f"\\{ord(char):03o}" if char in " \t\n\\" else char for char in name)
    assert decode_octal(escaped) == name


@given(st.text())
def test_decoding_raises_nothing_but_value_error(text: str) -> None:
    """Any text is decoded, or refused by ValueError where no byte can stand for it."""
    try:
        decode_octal(text)
    except ValueError:
        assert any(0xD800 <= ord(char) <= 0xDFFF for char in text)


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("rw,relatime", ("rw", "relatime")),
        ("rw", ("rw",)),
        ("", ()),
        (",rw,,ro,", ("rw", "ro")),
        (
            'rw,context="system_u:object_r:container_file_t:s0:c498,c574",lowerdir=/a:/b',
            ("rw", 'context="system_u:object_r:container_file_t:s0:c498,c574"', "lowerdir=/a:/b"),
        ),
        ('lowerdir="/a,upperdir=/b', ('lowerdir="/a', "upperdir=/b")),
        ('a="b"c,d"', ('a="b"c', 'd"')),
        ("=,x", ("=", "x")),
    ],
)
def test_options_split_at_commas_outside_quotes(text: str, options: tuple[str, ...]) -> None:
    """A comma inside a quoted value is part of it; a quote that never closes protects nothing."""
    assert split_options(text) == options
