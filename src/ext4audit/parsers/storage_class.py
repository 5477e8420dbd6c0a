"""StorageClass and PersistentVolume of Kubernetes, as settings of plans.

Sources: kubernetes.io, "Storage Classes" and "Persistent Volumes"; the parameters of the drivers:
docs/parameters.md of kubernetes-sigs/aws-ebs-csi-driver.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ext4audit.facts.mount import EXT_FSTYPES
from ext4audit.parsers.provisioning import Planned, Provisioned, listed, mapping, text_of

FSTYPE_KEYS = ("csi.storage.k8s.io/fstype", "fsType", "fstype")
DEFAULT_FSTYPE = "ext4"
"""Of the drivers below where no type is set."""
DISKS = {
    "ebs.csi.aws.com": "aws-ebs",
    "kubernetes.io/aws-ebs": "aws-ebs",
    "pd.csi.storage.gke.io": "gcp-pd",
    "kubernetes.io/gce-pd": "gcp-pd",
    "disk.csi.azure.com": "azure-disk",
    "kubernetes.io/azure-disk": "azure-disk",
}
MKFS = {"blocksize": "-b", "inodesize": "-I", "bytesperinode": "-i", "numberofinodes": "-N"}
"""Parameters of the EBS driver, and the flags that it passes to mke2fs."""
MOUNTS = "/mnt"
"""Where the plans of classes are mounted: the kubelet chooses the place for each pod."""
_QUANTITY = re.compile(r"([0-9]+(?:\.[0-9]+)?)([KMGTP]i?|k)?")
VOLUME, CLASS = "PersistentVolume", "StorageClass"


def parse_storage(documents: Iterable[object]) -> Provisioned:
    """Return the ext filesystems of the documents; raises ValueError where none has any."""
    found, skipped = [], []
    for document in documents:
        for item in _items(document):
            kind, name = text_of(item.get("kind")), _name(item)
            fields = (
                _of_class(item) if kind == CLASS else _of_volume(item) if kind == VOLUME else None
            )
            if fields is None:
                continue
            fstype = fields.pop("fstype")
            if fstype in EXT_FSTYPES:
                found.append(Planned({**fields, "mount_point": f"{MOUNTS}/{name or kind}"}))
            else:
                skipped.append(f"{kind} {name} is {fstype}")
    if not found and not skipped:
        raise ValueError(f"it has no {CLASS} and no {VOLUME}")
    return Provisioned(tuple(found), tuple(skipped))


def _items(document: object) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of a document, those of a List each by itself."""
    if document is None:
        return
    item = mapping(document, "a document")
    if text_of(item.get("kind")).endswith("List"):
        yield from (mapping(each, "items") for each in listed(item.get("items"), "items"))
    else:
        yield item


def _name(item: Mapping[str, Any]) -> str:
    return text_of(mapping(item.get("metadata") or {}, "metadata").get("name"))


def _of_class(item: Mapping[str, Any]) -> dict[str, Any]:
    parameters = mapping(item.get("parameters") or {}, "parameters")
    named = (text_of(parameters.get(key)) for key in FSTYPE_KEYS)
    fstype = next(filter(None, named), DEFAULT_FSTYPE)
    return {
        "fstype": fstype,
        "mkfs": " ".join(_arguments(parameters, fstype)),
        **_shared(item.get("mountOptions"), text_of(item.get("provisioner"))),
    }


def _arguments(parameters: Mapping[str, Any], fstype: str) -> Iterator[str]:
    values = {str(key).lower(): text_of(value) for key, value in parameters.items()}
    if fstype != DEFAULT_FSTYPE:
        yield f"-t {fstype}"
    for key, flag in MKFS.items():
        if values.get(key):
            yield f"{flag} {values[key]}"
    if values.get("ext4bigalloc", "").lower() == "true":
        yield "-O bigalloc"
        if values.get("ext4clustersize"):
            yield f"-C {values['ext4clustersize']}"


def _of_volume(item: Mapping[str, Any]) -> dict[str, Any]:
    spec = mapping(item.get("spec") or {}, "spec")
    sources = [each for each in spec.values() if isinstance(each, Mapping)]
    fstype = next(filter(None, (text_of(each.get("fsType")) for each in sources)), DEFAULT_FSTYPE)
    driver = text_of(mapping(spec.get("csi") or {}, "csi").get("driver"))
    capacity = text_of(mapping(spec.get("capacity") or {}, "capacity").get("storage"))
    fields = {
        "fstype": fstype,
        "mkfs": "" if fstype == DEFAULT_FSTYPE else f"-t {fstype}",
        **_shared(spec.get("mountOptions"), driver),
    }
    return {**fields, "size": size_of_quantity(capacity)} if capacity else fields


def _shared(options: object, driver: str) -> dict[str, str]:
    words = ",".join(text_of(each) for each in listed(options, "mountOptions"))
    disks = DISKS.get(driver)
    return {"mount_options": words, **({"on": disks} if disks else {})}


def size_of_quantity(text: str) -> str:
    """Return a quantity as a size of a plan: 100Gi is binary, 100G is decimal; ValueError."""
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a quantity of storage (100Gi)")
    number, unit = match[1], match[2] or ""
    return f"{number}{unit.upper()}B" if unit and not unit.endswith("i") else f"{number}{unit}"
