"""cloud-init's user data: the cloud-config documents in plain, MIME, gzip or base64 form.

The parser reads cloud-config and the parts of MIME multipart messages, also compressed by gzip or
encoded in base64, as passed by Terraform. It does not fetch, run or render what cloud-init would.

Source: docs.cloud-init.io, "User-data formats" and "Merging user-data sections".
"""

from __future__ import annotations

import re
import zlib
from base64 import b64decode
from collections.abc import Mapping, Sequence
from email import message_from_bytes
from email.message import Message
from typing import Any, NamedTuple

from ext4audit.parsers.provisioning import mapping

LARGEST_BYTES = 1 << 20
MOST_PARTS = 64
GZIP = b"\x1f\x8b"
JINJA = "## template: jinja"
CLOUD_CONFIG = "text/cloud-config"
BY_CONTENT = frozenset({"text/plain", "text/x-not-multipart", "application/octet-stream"})
"""Types for which cloud-init determines the real type from the first line."""
_BASE64 = re.compile(rb"[A-Za-z0-9+/\s]+=*\s*")
_IS_MESSAGE = re.compile(rb"\s*(content-type|mime-version|from)[: ]", re.IGNORECASE)
_GZIP_WINDOW = 31
FIRST_LINES = {
    "#cloud-config-archive": "text/cloud-config-archive",
    "#cloud-config-jsonp": "text/cloud-config-jsonp",
    "#include": "text/x-include-url",
    "#cloud-boothook": "text/cloud-boothook",
    "#part-handler": "text/part-handler",
    "#upstart-job": "text/upstart-job",
    "#!": "text/x-shellscript",
}
"""The first lines of user data other than cloud-config, and their types."""
NOT_READ = {
    "text/cloud-config-archive": "a cloud-config-archive, which is not read: give its cloud-config",
    "text/cloud-config-jsonp": "a JSON patch, which is not read: give the patched cloud-config",
    "text/x-include-url": "an #include of other files, which are not fetched: give them instead",
    "text/x-include-once-url": "an #include of other files, which are not fetched: give them "
    "instead",
    "text/jinja2": "a jinja template: render it first",
}
"""Types that may contain an fs_setup; scripts are not listed, as they cannot."""
MERGED = ("fs_setup", "disk_setup", "mounts", "mount_default_fields", "device_aliases")
MERGE_KEYS, MERGE_HEADERS = ("merge_how", "merge_type"), ("Merge-Type", "X-Merge-Type")


class Part(NamedTuple):
    """The text of a cloud-config, and whether a header sets how to merge it with others."""

    text: str
    has_merge_type: bool = False

    @property
    def is_jinja(self) -> bool:
        """Whether the first line marks the text as a Jinja template."""
        return self.text.lstrip().startswith(JINJA)


class UserData(NamedTuple):
    """The cloud-configs of user data in order, and messages about parts that are not read."""

    parts: tuple[Part, ...]
    skipped: tuple[str, ...]


def parse_user_data(raw: bytes) -> UserData:
    """Return the cloud-configs; raise ValueError that describes the data if there are none."""
    plain = _unwrapped(raw)
    if not _IS_MESSAGE.match(plain):
        text = _decoded(plain)
        kind = _type_by_content(text)
        if kind != CLOUD_CONFIG:
            raise ValueError(f"it is {NOT_READ.get(kind, f'{kind}, not a cloud-config')}")
        return UserData((Part(text),), ())
    try:
        return _parse_message(message_from_bytes(plain.lstrip()))
    except RecursionError:
        raise ValueError("a MIME message that is nested too deeply") from None


def merged(parts: Sequence[Part], documents: Sequence[object]) -> Mapping[str, Any]:
    """Merge the documents of the parts as cloud-init does: a later one replaces whole keys.

    Raises ValueError if a part sets another merge type and repeats a key that plans depend on.
    """
    found: dict[str, Any] = {}
    for part, document in zip(parts, documents, strict=True):
        config = mapping(document or {}, "the document")
        sets_merge_type = part.has_merge_type or any(key in config for key in MERGE_KEYS)
        both = [key for key in MERGED if key in found and key in config]
        if sets_merge_type and both:
            raise ValueError(f"a part merges {both[0]} in a way of its own, which is not read")
        found |= config
    return found


def _parse_message(message: Message) -> UserData:
    if message.get_content_maintype() == "multipart" and not message.is_multipart():
        raise ValueError("a MIME message without the parts that its boundary separates")
    leaves = [part for part in message.walk() if not part.is_multipart()]
    if len(leaves) > MOST_PARTS:
        raise ValueError(f"a MIME message of more than {MOST_PARTS} parts")
    read = [(leaf, _part_text(leaf)) for leaf in leaves]
    kinds = [_type(leaf, text) for leaf, text in read]
    skipped = [f"a part is {NOT_READ[kind]}" for kind in kinds if kind in NOT_READ]
    parts = tuple(
        Part(text, any(name in leaf for name in MERGE_HEADERS))
        for (leaf, text), kind in zip(read, kinds, strict=True)
        if kind == CLOUD_CONFIG
    )
    if not parts:
        raise ValueError("; ".join(skipped) or "no part of the MIME message is a cloud-config")
    return UserData(parts, tuple(skipped))


def _part_text(leaf: Message) -> str:
    payload = leaf.get_payload(decode=True)
    return _decoded(_unwrapped(payload if isinstance(payload, bytes) else b""))


def _type(leaf: Message, text: str) -> str:
    """Return the type of a part: from its header, or from its first line if that is generic."""
    kind = leaf.get_content_type()
    return _type_by_content(text) if kind in BY_CONTENT else kind


def _type_by_content(text: str) -> str:
    begin = text.lstrip()
    return next(
        (kind for word, kind in FIRST_LINES.items() if begin.startswith(word)), CLOUD_CONFIG
    )


def _unwrapped(raw: bytes) -> bytes:
    """Decode base64, then gzip; raise ValueError for damaged or too long gzip data."""
    if not raw.startswith(GZIP) and raw.strip() and _BASE64.fullmatch(raw):
        raw = _from_base64(raw)
    if not raw.startswith(GZIP):
        return raw
    try:
        packed = zlib.decompressobj(_GZIP_WINDOW)
        plain = packed.decompress(raw, LARGEST_BYTES + 1)
    except zlib.error as error:
        raise ValueError("it begins as gzip and cannot be decompressed") from error
    if len(plain) > LARGEST_BYTES:
        raise ValueError("decompressed, it is longer than 1 MiB")
    if not packed.eof:
        raise ValueError("it is gzip that is cut off")
    return plain


def _from_base64(raw: bytes) -> bytes:
    """Return the decoded base64, or `raw` if that is not user data: YAML can look like base64."""
    try:
        decoded = b64decode(b"".join(raw.split()), validate=True)
    except ValueError:
        return raw
    known = (GZIP, b"#", b"Content-Type:", b"MIME-Version:")
    return decoded if decoded.startswith(known) else raw


def _decoded(raw: bytes) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError("it is neither text in UTF-8 nor gzip") from None
