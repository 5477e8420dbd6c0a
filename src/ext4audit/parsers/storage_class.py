"""StorageClass and PersistentVolume of Kubernetes, converted to plan settings.

Sources: kubernetes.io, "Storage Classes" and "Persistent Volumes"; the parameters of the drivers:
docs/parameters.md of kubernetes-sigs/aws-ebs-csi-driver, "Create a storage class" of the Amazon EKS
User Guide (Auto Mode, which has the same), longhorn.io, "Storage Class Parameters",
examples/rbd/storageclass.yaml of ceph/ceph-csi. Options that drivers add for mke2fs:
mount_linux.go of kubernetes/mount-utils, which they share.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from math import ceil
from typing import Any

from ext4audit.facts.mount import EXT_FSTYPES
from ext4audit.parsers.provisioning import Planned, Provisioned, listed, mapping, text_of

FSTYPE_KEYS = ("csi.storage.k8s.io/fstype", "fstype", "fs")
DEFAULT_FSTYPE = "ext4"
"""The default type of the drivers and sources below; others make no filesystem, or have a
different default."""
DISKS = {
    "ebs.csi.aws.com": "aws-ebs",
    "ebs.csi.eks.amazonaws.com": "aws-ebs",
    "kubernetes.io/aws-ebs": "aws-ebs",
    "pd.csi.storage.gke.io": "gcp-pd",
    "kubernetes.io/gce-pd": "gcp-pd",
    "disk.csi.azure.com": "azure-disk",
    "kubernetes.io/azure-disk": "azure-disk",
}
SOURCES = {
    "awsElasticBlockStore": "aws-ebs",
    "gcePersistentDisk": "gcp-pd",
    "azureDisk": "azure-disk",
    "cinder": None,
    "fc": None,
    "iscsi": None,
    "rbd": None,
    "vsphereVolume": None,
}
"""Volume sources that are disks, and the kind of disk if it is known."""
UNRESERVED = "-m 0"
WITH_RESERVE = frozenset({"ext2"})
"""Types with reserved blocks: mount-utils makes only ext3 and ext4 with -m0."""
ADDED_WORDS, OWN_WORDS = ("mkfsparams",), ("mkfsoptions", "createoptions")
"""Parameters with mke2fs options that a driver adds to its own, or uses instead of its own."""
MKFS = {"blocksize": "-b", "inodesize": "-I", "bytesperinode": "-i", "numberofinodes": "-N"}
"""Parameters of the EBS driver, and the mke2fs flags that they set."""
_OPTIONS_OF_OTHERS = re.compile(r"mkfs|(?:mount|fs|format)[-_]?opt|fs[-_]?format")
"""Matches lower-case names of driver parameters that may contain mke2fs or mount(8) options."""
MOUNTS = "/mnt"
"""The directory of planned mount points: the kubelet chooses the real path for each pod."""
_QUANTITY = re.compile(r"([0-9]+(?:\.[0-9]+)?)([KMGTP]i?|k)?")
_OTHER_QUANTITY = re.compile(r"\+?([0-9]+\.?[0-9]*|\.[0-9]+)(?:(m|Ei?)|[eE]\+?([0-9]{1,2}))?")
"""Rare forms of quantities: "128974848000m", "1e11", ".5E"."""
_UNITS = {"m": Fraction(1, 1000), "E": Fraction(10**18), "Ei": Fraction(1 << 60)}
OPTIONS_ANNOTATION = "volume.beta.kubernetes.io/mount-options"
"""The annotation whose mount options replace those in the spec of a PersistentVolume
(kubernetes.io, "Persistent Volumes": it still works)."""
LONGEST_NAME = 80
VOLUME, CLASS, CLAIM = "PersistentVolume", "StorageClass", "PersistentVolumeClaim"


def parse_storage(documents: Iterable[object]) -> Provisioned:
    """Return the ext filesystems of the documents; raise ValueError without a class or volume."""
    found: list[Planned] = []
    skipped: list[str] = []
    places = set[str]()
    for document in documents:
        for item in _items(document):
            kind, name = text_of(item.get("kind")), _name(item)
            if kind == CLAIM:
                skipped.append(f"{kind} {name} is not read: the size of a {CLASS} is --size")
            if kind not in {CLASS, VOLUME}:
                continue
            fields = _class_settings(item) if kind == CLASS else _volume_settings(item)
            fstype = fields.pop("fstype")
            if fstype in EXT_FSTYPES:
                place = f"{MOUNTS}/{name or kind}"
                place += f"-{len(found) + 1}" if place in places else ""
                places.add(place)
                found.append(Planned({**fields, "mount_point": place}))
                skipped += [f"{each} of {kind} {name}, which is not read" for each in _unread(item)]
            else:
                what = f"is {fstype}" if fstype else "names no type of filesystem"
                skipped.append(f"{kind} {name} {what}")
    if not found and not skipped:
        raise ValueError(f"it has no {CLASS} and no {VOLUME}")
    return Provisioned(tuple(found), tuple(skipped))


def _items(document: object) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of a document; a List is split into its items.

    The API server omits the kind of the items in a StorageClassList.
    """
    if document is None:
        return
    item = mapping(document, "a document")
    kind = text_of(item.get("kind"))
    if kind.endswith("List"):
        own = {"kind": kind.removesuffix("List")}
        yield from (
            {**own, **mapping(each, "items")} for each in listed(item.get("items"), "items")
        )
    else:
        yield item


def _name(item: Mapping[str, Any]) -> str:
    return text_of(mapping(item.get("metadata") or {}, "metadata").get("name"))


def _class_settings(item: Mapping[str, Any]) -> dict[str, Any]:
    parameters = mapping(item.get("parameters") or {}, "parameters")
    values = {str(key).lower(): text_of(value) for key, value in parameters.items()}
    named = (values.get(key, "") for key in FSTYPE_KEYS)
    driver = text_of(item.get("provisioner"))
    fstype = next(filter(None, named), DEFAULT_FSTYPE if driver in DISKS else "")
    return {
        "fstype": fstype,
        "mkfs": " ".join(_arguments(values, fstype)),
        **_common_settings(item.get("mountOptions"), DISKS.get(driver)),
    }


def _unread(item: Mapping[str, Any]) -> Iterator[str]:
    """Yield the parameters of a class that may contain options, but are not supported here."""
    for key in mapping(item.get("parameters") or {}, "parameters"):
        name = str(key).lower()
        if _OPTIONS_OF_OTHERS.search(name) and name not in (*ADDED_WORDS, *OWN_WORDS):
            yield str(key)[:LONGEST_NAME]


def _arguments(values: Mapping[str, str], fstype: str) -> Iterator[str]:
    if fstype != DEFAULT_FSTYPE:
        yield f"-t {fstype}"
    own = [_words(values[key]) for key in OWN_WORDS if values.get(key)]
    if fstype not in WITH_RESERVE and not own:
        yield UNRESERVED
    yield from own
    yield from (_words(values[key]) for key in ADDED_WORDS if values.get(key))
    for key, flag in MKFS.items():
        if values.get(key):
            yield f"{flag} {values[key]}"
    if values.get("ext4bigalloc", "").lower() == "true":
        yield "-O bigalloc"
        if values.get("ext4clustersize"):
            yield f"-C {values['ext4clustersize']}"
    if values.get("ext4encryptionsupport", "").lower() == "true":
        yield "-O encrypt"


def _words(text: str) -> str:
    """Return the mke2fs options given as text or as a JSON list; raise ValueError for bad JSON."""
    if not text.startswith("["):
        return text
    try:
        words = listed(json.loads(text), "options of mke2fs")
    except RecursionError:
        raise ValueError(f"{text[:40]!r} is nested too deep") from None
    return shlex.join(text_of(word) for word in words)


def _volume_settings(item: Mapping[str, Any]) -> dict[str, Any]:
    spec = mapping(item.get("spec") or {}, "spec")
    sources = {key: each for key, each in spec.items() if isinstance(each, Mapping)}
    named = next(filter(None, (text_of(each.get("fsType")) for each in sources.values())), "")
    driver = text_of(mapping(spec.get("csi") or {}, "csi").get("driver"))
    kinds = [SOURCES[key] for key in sources if key in SOURCES]
    kinds += [DISKS[driver]] if driver in DISKS else []
    fstype = named or (DEFAULT_FSTYPE if kinds else "")
    if text_of(spec.get("volumeMode")) == "Block":
        fstype = "a block device"
    capacity = text_of(mapping(spec.get("capacity") or {}, "capacity").get("storage"))
    fields = {
        "fstype": fstype,
        "mkfs": " ".join(_arguments({}, fstype)),
        **_common_settings(_options_of_volume(item, spec), next(filter(None, kinds), None)),
    }
    return {**fields, "size": size_of_quantity(capacity)} if capacity else fields


def _options_of_volume(item: Mapping[str, Any], spec: Mapping[str, Any]) -> object:
    metadata = mapping(item.get("metadata") or {}, "metadata")
    annotations = mapping(metadata.get("annotations") or {}, "annotations")
    annotated = text_of(annotations.get(OPTIONS_ANNOTATION))
    return [annotated] if annotated else spec.get("mountOptions")


def _common_settings(options: object, disks: str | None) -> dict[str, str]:
    words = ",".join(text_of(each) for each in listed(options, "mountOptions"))
    return {"mount_options": words, **({"on": disks} if disks else {})}


def size_of_quantity(text: str) -> str:
    """Return a quantity as a plan's size (100Gi is binary, 100G decimal), or raise ValueError."""
    match = _QUANTITY.fullmatch(text)
    if match is None:
        return _in_bytes(text)
    number, unit = match[1], match[2] or ""
    return f"{number}{unit.upper()}B" if unit and not unit.endswith("i") else f"{number}{unit}"


def _in_bytes(text: str) -> str:
    """Return the bytes of a quantity in a rare form, rounded up; raise ValueError for others."""
    match = _OTHER_QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a quantity of storage (100Gi)")
    power = Fraction(10 ** int(match[3] or 0))
    return str(ceil(Fraction(match[1]) * _UNITS.get(match[2], power)))
