"""cloud-init's user data: reading of each wrapping, and the errors for unsupported ones."""

from __future__ import annotations

import gzip
from base64 import b64encode
from contextlib import suppress
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext4audit.parsers.user_data import LARGEST_BYTES, Part, merged, parse_user_data

CONFIG = "#cloud-config\nfs_setup: []\n"
TEMPLATE = f"## template: jinja\n{CONFIG}"


def packed(raw: bytes) -> bytes:
    """Compress without a timestamp."""
    return gzip.compress(raw, mtime=0)


def multipart(*parts: tuple[str, str], merge_type: str = "") -> bytes:
    """Build a message from subtypes and texts, as make-mime and Terraform do."""
    message = MIMEMultipart(boundary="=b=")
    for subtype, text in parts:
        part = MIMEText(text, subtype, "utf-8")
        if merge_type:
            part["X-Merge-Type"] = merge_type
        message.attach(part)
    return message.as_bytes()


@pytest.mark.parametrize(
    ("raw", "texts"),
    [
        pytest.param(CONFIG.encode(), [CONFIG], id="plain"),
        pytest.param(b"\xef\xbb\xbf" + CONFIG.encode(), [CONFIG], id="with a byte order mark"),
        pytest.param(packed(CONFIG.encode()), [CONFIG], id="gzip"),
        pytest.param(b64encode(CONFIG.encode()), [CONFIG], id="base64"),
        pytest.param(b64encode(packed(CONFIG.encode())), [CONFIG], id="gzip in base64"),
        pytest.param(TEMPLATE.encode(), [TEMPLATE], id="a template without placeholders"),
        pytest.param(b"fs_setup: []\n", ["fs_setup: []\n"], id="without the first line"),
        pytest.param(
            multipart(("x-shellscript", "#!/bin/sh\n"), ("cloud-config", CONFIG)),
            [CONFIG],
            id="a part of a message",
        ),
        pytest.param(
            multipart(("plain", CONFIG), ("plain", "#!/bin/sh\n")), [CONFIG], id="by its first line"
        ),
        pytest.param(
            packed(multipart(("cloud-config", CONFIG), ("cloud-config", "a: 1"))),
            [CONFIG, "a: 1"],
            id="two parts, compressed",
        ),
        pytest.param(
            f"Content-Type: text/cloud-config\n\n{CONFIG}".encode(), [CONFIG], id="a single part"
        ),
    ],
)
def test_cloud_config_is_found_in_every_encoding(raw: bytes, texts: list[str]) -> None:
    """The parts are returned in their order."""
    assert [part.text for part in parse_user_data(raw).parts] == texts


NESTED = b"".join(
    b'Content-Type: multipart/mixed; boundary="%d"\n\n--%d\n' % (level, level)
    for level in range(3000)
)


@pytest.mark.parametrize(
    ("raw", "reported"),
    [
        (b"#include\nhttps://a/b\n", "#include of other files, which are not fetched"),
        (b"#include-once\nhttps://a/b\n", "#include of other files"),
        (b"#cloud-config-archive\n- type: x\n", "cloud-config-archive, which is not read"),
        (b"#cloud-config-jsonp\n[]\n", "a JSON patch"),
        (b"#!/bin/sh\n", "it is text/x-shellscript, not a cloud-config"),
        (b"#cloud-boothook\n", "text/cloud-boothook"),
        (multipart(("x-shellscript", "#!/bin/sh")), "no part of the MIME message"),
        (multipart(("jinja2", TEMPLATE)), "a part is a jinja template: render it first"),
        (multipart(("x-include-url", "https://a")), "a part is an #include"),
        (multipart(*[("plain", "x")] * 65), "more than 64 parts"),
        (b"Content-Type: multipart/mixed; boundary=x\n\nno part\n", "without the parts"),
        (NESTED, "nested too deeply"),
        (packed(b"x" * (LARGEST_BYTES + 1)), "longer than 1 MiB"),
        (packed(b"x" * 100)[:-9], "cut off"),
        (b"\x1f\x8b nothing", "cannot be decompressed"),
        (b"\xff\xfe\x00", "neither text in UTF-8 nor gzip"),
    ],
)
def test_data_without_cloud_config_are_refused_with_their_type(raw: bytes, reported: str) -> None:
    """The error names the form, instead of a missing mapping or a codec."""
    with pytest.raises(ValueError, match=reported):
        parse_user_data(raw)


def test_parts_that_are_left_out_are_named() -> None:
    """An included file may have an fs_setup; a script has none."""
    found = parse_user_data(
        multipart(("x-include-url", "https://a"), ("cloud-config", CONFIG), ("x-shellscript", "x"))
    )
    assert len(found.parts) == 1
    assert found.skipped == (
        "a part is an #include of other files, which are not fetched: give them instead",
    )


def test_a_later_part_replaces_whole_keys() -> None:
    """This is the default of cloud-init: dict(replace)+list()+str()."""
    parts = (Part("", has_merge_type=False),) * 3
    documents = ({"fs_setup": [1], "mounts": [2]}, {"fs_setup": [3]}, None)
    assert merged(parts, documents) == {"fs_setup": [3], "mounts": [2]}


def test_another_merge_type_is_refused_if_keys_repeat() -> None:
    """It matters if two parts have the same key; a header or a key of the document sets it."""
    header = (Part(""), Part("", has_merge_type=True))
    with pytest.raises(ValueError, match="merges mounts in a way of its own"):
        merged(header, ({"mounts": []}, {"mounts": []}))
    by_key = {"mounts": [], "merge_how": "list(append)"}
    with pytest.raises(ValueError, match="in a way of its own"):
        merged((Part(""), Part("")), ({"mounts": []}, by_key))
    assert merged(header, ({"packages": []}, {"packages": [1]})) == {"packages": [1]}
    assert parse_user_data(multipart(("cloud-config", "a: 1"), merge_type="x")).parts == (
        Part("a: 1", has_merge_type=True),
    )


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_data_are_read_or_refused(raw: bytes) -> None:
    """The parser raises nothing but ValueError."""
    for data in (raw, packed(raw), b"Content-Type: multipart/mixed; boundary=b\n\n" + raw):
        with suppress(ValueError):
            assert parse_user_data(data).parts
