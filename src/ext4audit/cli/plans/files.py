"""Plan files: TOML with the keys of a plan, and the files of provisioning tools.

A file describes one or more filesystems, and can set policy keys (select, ignore, ...).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterable, Mapping
from types import ModuleType
from typing import Any, NamedTuple

import click

from ext4audit import lazily
from ext4audit.cli import did_you_mean
from ext4audit.cli.files import read_bytes
from ext4audit.cli.output import refused
from ext4audit.cli.plans.values import size_of
from ext4audit.facts import decoded, parse_toml
from ext4audit.parsers.provisioning import Planned, Provisioned
from ext4audit.policy import THRESHOLDS

LARGEST_BYTES = 1 << 20
STANDARD_INPUT = "-"
MOST_FILESYSTEMS = 64
STATED_SIZE = "stated_size"
"""The key of a size that --size does not override."""
FILESYSTEMS = "filesystem"
TEXT_KEYS = frozenset(
    "kernel os target_e2fsprogs device mount_point mount_options mkfs mke2fs_conf on from "
    "virtualization write_cache".split()
)
POLICY_KEYS = {"select": "wanted", "ignore": "ignored", "profile": "profiles", "fail_on": "fail_on"}
"""Policy keys that a plan file may have, with their parameters of the command line."""
MOST_EVENTS = 50_000
MOST_DEPTH = 32
MOST_ALIASES = 100
"""Limits of a YAML document, which prevent "billion laughs" and deep nesting."""


class PlanFile(NamedTuple):
    """A plan file: settings by filesystem, policy keys, and notes on what is skipped."""

    filesystems: tuple[Mapping[str, Any], ...]
    policy: Mapping[str, Any]
    skipped: tuple[str, ...] = ()


def read_plan_file(path: str, keys: Collection[str]) -> PlanFile:
    """Return the plans of a TOML file or of standard input; raises UsageError if invalid."""
    text = _text(path)
    with refused(path):
        table = parse_toml(text)
    several = table.pop(FILESYSTEMS, [{}])
    if not isinstance(several, list) or not all(isinstance(each, dict) for each in several):
        raise click.UsageError(f"{path}: {FILESYSTEMS} is not a list of tables: [[{FILESYSTEMS}]]")
    if not 0 < len(several) <= MOST_FILESYSTEMS:
        raise click.UsageError(f"{path}: it has no or more than {MOST_FILESYSTEMS} filesystems")
    policy = {key: table.pop(key) for key in (*POLICY_KEYS, "fail-on") if key in table}
    shared = _checked(path, text, table, keys)
    return PlanFile(
        tuple({**shared, **_checked(path, text, each, keys)} for each in several),
        _policy(path, policy),
    )


def _text(path: str) -> str:
    raw = _raw(path)
    with refused(path):
        return decoded(raw)


def _raw(path: str) -> bytes:
    with refused(path):
        if path != STANDARD_INPUT:
            return read_bytes(path, LARGEST_BYTES)
        if sys.stdin is None:  # closed by the caller
            raise click.UsageError("standard input is closed")
        raw = sys.stdin.buffer.read(LARGEST_BYTES + 1)
        if len(raw) > LARGEST_BYTES:
            raise click.UsageError("it is longer than 1 MiB")
        return raw


def _checked(
    path: str, text: str, table: Mapping[str, Any], keys: Collection[str]
) -> dict[str, Any]:
    """Return a table with `_` for `-` in its keys; raises UsageError for invalid entries."""
    found = {}
    for key, value in table.items():
        name = key.replace("-", "_")
        if name in found:
            raise click.UsageError(f"{path}: {key} is set twice, as {name} too")
        if name not in keys:
            known = (*keys, *POLICY_KEYS, FILESYSTEMS)
            raise click.UsageError(f"{path}: unknown key {key!r}{did_you_mean(key, known)}")
        if isinstance(value, float) or (isinstance(value, int) and name in TEXT_KEYS):
            kind = "boolean" if isinstance(value, bool) else "number"
            written = re.search(rf"^\s*{re.escape(key)}\s*=\s*([^\s#]+)", text, re.MULTILINE)
            raw = written[1] if written else str(value)
            raise click.UsageError(
                f'{path}: {key} = {raw} is a {kind} in TOML: quote it, {key} = "{raw}"'
            )
        if not isinstance(value, str | int):
            raise click.UsageError(f"{path}: {key} is not a string, number or boolean")
        found[name] = value
    return found


def _policy(path: str, table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the policy keys as parameters of the command line; raises UsageError."""
    found: dict[str, Any] = {}
    for key, value in table.items():
        name = key.replace("-", "_")
        if POLICY_KEYS[name] in found:
            raise click.UsageError(f"{path}: {key} is set twice, as {name} too")
        words = (value,) if isinstance(value, str) else value
        if not isinstance(words, list | tuple) or not all(isinstance(w, str) for w in words):
            raise click.UsageError(f"{path}: {key} is not a string or a list of strings")
        if name == "fail_on" and (len(words) != 1 or words[0] not in THRESHOLDS):
            raise click.UsageError(f"{path}: {key} is none of {', '.join(THRESHOLDS)}")
        found[POLICY_KEYS[name]] = words[0] if name == "fail_on" else tuple(words)
    return found


def read_cloud_init(path: str, size: object) -> PlanFile:
    """Return the plans in cloud-init user data; raises UsageError."""
    yaml = _yaml_module("--from-cloud-init")
    raw = _raw(path)
    with refused(path):
        found = lazily("parsers.user_data", "parse_user_data")(raw)
    documents = [
        _cloud_config(path, part.text, yaml, is_jinja=part.is_jinja) for part in found.parts
    ]
    with refused(path):
        merged = lazily("parsers.user_data", "merged")(found.parts, documents)
        planned: Provisioned = lazily("parsers.cloud_init", "parse_cloud_init")(merged)
        return _planned(planned._replace(skipped=(*planned.skipped, *found.skipped)), size)


def _cloud_config(path: str, text: str, yaml: ModuleType, *, is_jinja: bool) -> object:
    """Return the document of a user-data part; raises UsageError unless it is exactly one."""
    try:
        documents = _documents(path, text, yaml)
    except click.UsageError:
        if is_jinja:
            raise click.UsageError(f"{path}: it is a jinja template: render it first") from None
        raise
    if len(documents) != 1:
        raise click.UsageError(f"{path}: it is not one document of cloud-config")
    return documents[0]


def read_storage_class(path: str, size: object) -> PlanFile:
    """Return the plans of Kubernetes StorageClasses and PersistentVolumes; raises UsageError."""
    yaml = _yaml_module("--from-storage-class")
    documents = _documents(path, _text(path), yaml)
    with refused(path):
        return _planned(lazily("parsers.storage_class", "parse_storage")(documents), size)


def read_kickstart(path: str, size: object) -> PlanFile:
    """Return the plans of a kickstart file; raises UsageError."""
    text = _text(path)
    with refused(path):
        return _planned(lazily("parsers.kickstart", "parse_kickstart")(text), size)


def _planned(found: Provisioned, size: object) -> PlanFile:
    """Return the plans of a document; raise ValueError if it has no ext4, or too many."""
    if not found.planned:
        raise ValueError(f"no ext4: {'; '.join(found.skipped)}")
    if len(found.planned) > MOST_FILESYSTEMS:
        raise ValueError(f"it has more than {MOST_FILESYSTEMS} filesystems")
    filesystems = tuple(_with_share(each, size) for each in found.planned)
    return PlanFile(filesystems, {}, found.skipped)


def _with_share(planned: Planned, size: object) -> Mapping[str, Any]:
    """Return the settings with the size that the document sets, or its share of --size.

    --size applies only to sizes that the document does not set.
    """
    if planned.share is None or size is None:
        return {**planned.settings, STATED_SIZE: planned.settings.get("size")}
    sectors = int(size_of(str(size)) * planned.share / 100) // 512
    return {**planned.settings, STATED_SIZE: str(sectors * 512)}


def _yaml_module(flag: str) -> ModuleType:
    """Return the module of PyYAML; raises UsageError if it is not installed."""
    try:
        import yaml  # noqa: PLC0415 - an optional dependency
    except ImportError:
        raise click.UsageError(
            f"{flag} needs PyYAML: install ext4audit[yaml], or python3-yaml"
        ) from None
    return yaml


def _documents(path: str, text: str, yaml: ModuleType) -> list[Any]:
    """Return the documents of a YAML text; raises UsageError."""
    try:
        _check_events(yaml.parse(text, Loader=yaml.SafeLoader))
        return list(yaml.safe_load_all(text))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split()) or "nested too deep"
        raise click.UsageError(f"{path}: not YAML that can be read: {reason}") from None


def _check_events(events: Iterable[Any]) -> None:
    """Raise ValueError for a document that would take long to construct."""
    depth = aliases = 0
    for number, event in enumerate(events):
        kind = type(event).__name__
        depth += kind in {"MappingStartEvent", "SequenceStartEvent"}
        depth -= kind in {"MappingEndEvent", "SequenceEndEvent"}
        aliases += kind == "AliasEvent"
        if kind == "ScalarEvent" and event.value == "<<":
            raise ValueError("merge keys (<<) are not read")
        if number > MOST_EVENTS or depth > MOST_DEPTH or aliases > MOST_ALIASES:
            raise ValueError(
                f"more than {MOST_EVENTS} values, {MOST_DEPTH} levels or {MOST_ALIASES} aliases"
            )
