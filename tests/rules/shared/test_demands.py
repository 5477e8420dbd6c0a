"""Demanded options, options that rules warn about, and the purpose of mount points."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from ext4audit.evidence import Evidence
from ext4audit.facts.host import ActiveProfile, Filesystem, Host, Kernel, all_profiles
from ext4audit.facts.mount import DeviceNumber, EffectiveOptions, Provenance, below
from ext4audit.facts.options import canonical
from ext4audit.remedies import holds_volume, mounted_by
from ext4audit.rules.shared.demands import (
    beside_ordered,
    container_layers,
    demanded,
    demands_features,
    discouraged,
    holds_database,
    holds_tenants,
    kept_text,
    replaced_demands,
    states_of,
    warning_text,
)
from support.builders import (
    filesystem,
    host,
    kernel,
    known,
    mount,
    options,
    unknown,
)

AFFECTED_KERNEL, FIXED_KERNEL = known(kernel("5.4.286")), known(kernel("6.18.5"))


def with_profiles(*names: str) -> Host:
    """Build a host with these profiles for all its filesystems."""
    return host(profiles=tuple(ActiveProfile(all_profiles()[name]) for name in names))


def with_options(found: Evidence[EffectiveOptions]) -> Filesystem:
    """Build a filesystem with these options."""
    return filesystem(options=found)


@pytest.mark.parametrize(
    ("token", "code"),
    [
        ("commit=30", None),
        ("commit=31", "DUR007"),
        ("commit=x", None),
        ("stripe=31", None),
        ("resuid=0", None),
        ("resuid=1", "SEC003"),
        ("resgid=0", None),
        ("resgid=100", "SEC003"),
        ("nobarrier", "DUR001"),
        ("barrier=0", "DUR001"),
        ("barrier", None),
        ("dioread_nolock", None),
        ("noblock_validity", None),
    ],
)
def test_code_of_the_rule_that_warns_of_an_option(token: str, code: str | None) -> None:
    """The values without a warning are those that the rules themselves let pass."""
    found = discouraged([token], filesystem(), host(kernel=FIXED_KERNEL))
    assert dict(found) == ({canonical(token): code} if code else {})


def test_no_warning_for_a_demanded_option() -> None:
    """The vendor's demand takes precedence for its product."""
    assert discouraged(["nodelalloc"], filesystem(), with_profiles("tidb")) == {}
    assert discouraged(["nodelalloc"], filesystem(), with_profiles("neo4j")) == {
        "nodelalloc": "PRF003"
    }


@pytest.mark.parametrize(
    ("fs", "on", "warned"),
    [
        (with_options(known(options("nodelalloc"))), host(kernel=AFFECTED_KERNEL), True),
        (with_options(known(options("nodelalloc"))), host(kernel=FIXED_KERNEL), False),
        (with_options(known(options("nodelalloc"))), host(kernel=unknown("kernel")), False),
        (with_options(known(options("delalloc"))), host(kernel=AFFECTED_KERNEL), False),
        (with_options(known(options())), host(kernel=AFFECTED_KERNEL), False),
        (with_options(unknown("options")), host(kernel=AFFECTED_KERNEL), False),
        (
            with_options(known(options("nodelalloc", set_by=Provenance.IMPLIED))),
            host(kernel=AFFECTED_KERNEL),
            False,
        ),
        (with_options(known(options())), with_profiles("tidb"), False),
    ],
)
def test_warning_for_dioread_nolock_with_nodelalloc(
    fs: Filesystem, on: Host, *, warned: bool
) -> None:
    """The warning is for kernels of PRF001, unless data=journal alone turned delalloc off."""
    expected = {"dioread_nolock": "PRF001"} if warned else {}
    assert discouraged(["dioread_nolock"], fs, on) == expected


@pytest.mark.parametrize(
    ("place", "running", "in_fstab"),
    [
        ("/data", FIXED_KERNEL, True),
        ("/", FIXED_KERNEL, False),
        ("/", unknown("kernel"), False),
        ("/", known(kernel("6.12.95", "")), True),
    ],
)
def test_demanded_nodelalloc_of_the_root_is_for_the_boot_loader(
    place: str, running: Evidence[Kernel], *, in_fstab: bool
) -> None:
    """Since Linux 6.13 the boot's remount of the root fails with nodelalloc from fstab."""
    implied = known(options("nodelalloc", set_by=Provenance.IMPLIED))
    fs = filesystem(options=implied, mounts=(mount(place),))
    profiles = (ActiveProfile(all_profiles()["tidb"]),)
    wanted, why = beside_ordered(fs, host(fs, kernel=running, profiles=profiles))
    assert (wanted == {"delalloc": "nodelalloc"}) is in_fstab
    assert ("rootflags=" in why) is not in_fstab


def test_warning_for_dioread_nolock_with_demanded_nodelalloc() -> None:
    """The demanded nodelalloc will be in force."""
    profiles = (ActiveProfile(all_profiles()["tidb"]),)
    on = host(profiles=profiles, kernel=AFFECTED_KERNEL)
    assert discouraged(["dioread_nolock"], filesystem(), on) == {"dioread_nolock": "PRF001"}


def test_warning_only_for_hidden_options() -> None:
    """DUR002 reports it only if it comes from the superblock."""
    fs = with_options(known(options(hidden=("noblock_validity",))))
    assert discouraged(["noblock_validity"], fs, host()) == {"noblock_validity": "DUR002"}
    assert discouraged(["nodioread_nolock"], fs, host()) == {}
    assert discouraged(["noblock_validity"], with_options(unknown("options")), host()) == {}


@pytest.mark.parametrize(
    ("path", "inside"),
    [("/srv", True), ("/srv/www", True), ("/srvx", False), ("/", False), ("/a/srv", False)],
)
def test_path_is_inside_a_directory(path: str, *, inside: bool) -> None:
    """A name with the same prefix is another directory."""
    assert below(path, ["/srv", "/home"]) is inside


@pytest.mark.parametrize(
    ("place", "kinds"),
    [
        ("/var/lib/pgsql", "database"),
        ("/var/opt/mssql/data", "database"),
        ("/var/lib/kubelet/pods/x", "volume tenants"),
        ("/var/lib/kubelet", "tenants"),
        ("/home", "tenants"),
        ("/data", ""),
    ],
)
def test_kind_of_use_by_mount_point(place: str, kinds: str) -> None:
    """The directories are those that packages use."""
    fs = filesystem(mounts=(mount(place),))
    found = {
        "database": holds_database(fs),
        "volume": holds_volume(fs),
        "tenants": holds_tenants(fs),
    }
    assert [kind for kind, true in found.items() if true] == kinds.split()
    assert ("mountOptions in Kubernetes" in mounted_by(fs)) is ("volume" in kinds)


def overlays(*uppers: str, **changes: object) -> Host:
    """Build a host with filesystems on / and /var, and overlays."""
    sdb = DeviceNumber(8, 16)
    mounts = [mount("/", mount_id=20), mount("/var", number=sdb, mount_id=21)]
    mounts += [
        mount(
            f"/merged{index}",
            number=DeviceNumber(0, 50 + index),
            fstype="overlay",
            super_options=("rw", "lowerdir=/low", f"upperdir={upper}"),
            mount_id=40 + index,
        )
        for index, upper in enumerate(uppers)
    ]
    return host(**{"mounts": known(tuple(mounts)), **changes})


@pytest.mark.parametrize(
    ("on", "folders"),
    [
        (overlays("/a/upper", "/var/b/upper"), ["/a/upper"]),
        (overlays("/varb/upper"), ["/varb/upper"]),
        (overlays("relative"), []),
        (overlays("/a/upper", container="docker"), []),
        (overlays(mounts=unknown("mounts")), []),
    ],
)
def test_container_layers_belong_to_the_deepest_mount(on: Host, folders: list[str]) -> None:
    """Inside a container the directories have other paths."""
    assert list(container_layers(filesystem(), on)) == folders


def test_demanded_options_name_the_first_profile() -> None:
    """Each option is listed once, in the option table's spelling."""
    found = demanded(filesystem(), with_profiles("tidb", "neo4j", "etcd"))
    assert {token: profile.name for token, profile in found.items()} == {
        "barrier": "etcd",
        "noatime": "tidb",
        "nodelalloc": "tidb",
    }


def test_demanded_features_name_their_profile() -> None:
    """Only profiles that demand features are listed."""
    found = demands_features(filesystem(), with_profiles("tidb", "mysql-aws-twp"))
    assert {feature: profile.name for feature, profile in found.items()} == {
        "bigalloc": "mysql-aws-twp"
    }


@pytest.mark.parametrize(
    ("tokens", "lost"),
    [
        ({"delalloc": "delalloc"}, ["nodelalloc"]),
        ({"delalloc": "nodelalloc"}, []),
        ({"barrier": "nobarrier"}, []),
        ({}, []),
    ],
)
def test_changes_that_contradict_a_demand(tokens: dict[str, str], lost: list[str]) -> None:
    """A change conflicts if it gives a demanded option a different token."""
    assert list(replaced_demands(filesystem(), with_profiles("tidb"), tokens)) == lost


@pytest.mark.parametrize(
    ("tokens", "lost"),
    [
        (("delalloc",), ["nodelalloc"]),
        (("nodelalloc",), []),
        (("relatime",), ["noatime"]),
        (("strictatime", "delalloc"), ["nodelalloc", "noatime"]),
        (("noatime", "nosuid"), []),
    ],
)
def test_active_tokens_that_contradict_a_demand(tokens: Iterable[str], lost: list[str]) -> None:
    """All access-time options are one option, of which one token is in force."""
    assert sorted(
        replaced_demands(filesystem(), with_profiles("tidb"), states_of(tokens))
    ) == sorted(lost)


def test_sentences_about_kept_and_warned_options() -> None:
    """Without anything to report, the text is empty."""
    kept = demanded(filesystem(), with_profiles("neo4j"))
    product = all_profiles()["neo4j"].product
    assert kept_text(kept) == f" noatime is kept: required by {product} (profile neo4j)."
    assert kept_text({}) == ""
    assert warning_text({"discard": "PRF004", "sync": "PRF012"}) == (
        "PRF004 reports discard, PRF012 reports sync"
    )
    assert warning_text({}) == ""
