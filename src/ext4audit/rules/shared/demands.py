"""Features, options and data modes that a mount point or a profile requires of a filesystem."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from ext4audit import remedies
from ext4audit.evidence import Known, for_wording, need
from ext4audit.facts import cached_by_identity, whole_number
from ext4audit.facts.features_and_bugs import exposure
from ext4audit.facts.host import Filesystem, Host, Profile, fstab_lines, option_of
from ext4audit.facts.mount import DeviceNumber, Mount, Provenance, below, mount_of
from ext4audit.facts.options import canonical, option_name
from ext4audit.finding import Remedy
from ext4audit.rule import NotApplicable, refuse_unmounted
from ext4audit.rules.shared import in_rootflags, is_in_force, what_else_sets_it
from ext4audit.rules.shared.mount_config import refused_at_boot

DATABASES = (
    "/var/opt/mssql",
    *(
        f"/var/lib/{name}"
        for name in (
            "cassandra clickhouse cockroach couchbase couchdb elasticsearch etcd influxdb kafka "
            "mariadb mongo mongodb mysql neo4j opensearch pgsql postgresql prometheus rabbitmq "
            "redis tidb tikv valkey zookeeper"
        ).split()
    ),
)
"""Data directories of packaged databases."""
TENANTS = frozenset(
    (
        "/home /srv /var/lib/containerd /var/lib/containers /var/lib/docker /var/lib/incus "
        "/var/lib/kubelet /var/lib/lxc /var/lib/lxd /var/lib/nomad /var/mail /var/snap/lxd "
        "/var/spool/mail /var/www"
    ).split()
)
"""Directories with files of several users or containers."""


def holds_database(fs: Filesystem) -> bool:
    """Return whether the filesystem is mounted at or below the data directory of a database."""
    return _any_below(fs, DATABASES)


def holds_tenants(fs: Filesystem) -> bool:
    """Return whether it is mounted where several users or containers keep their files."""
    return _any_below(fs, TENANTS)


def container_layers(fs: Filesystem, host: Host) -> Iterator[str]:
    """Yield the upperdirs of overlay mounts on the filesystem, one per container.

    Yields nothing inside a container, where the mount table shows these paths as on the host.
    """
    contained = for_wording(host.container, None)
    mounts = () if contained else for_wording(host.mounts, ())
    yield from _layers(mounts).get(fs.device_number, ())


@cached_by_identity
def _layers(mounts: tuple[Mount, ...]) -> Mapping[DeviceNumber, list[str]]:
    """Return the upperdirs of overlay mounts by the number of the device that holds them."""
    found: dict[DeviceNumber, list[str]] = {}
    for token in (t for mount in mounts if mount.fstype == "overlay" for t in mount.super_options):
        upper = token.removeprefix("upperdir=")
        holder = mount_of(mounts, upper) if upper != token else None
        if holder is not None:
            found.setdefault(holder.device_number, []).append(upper)
    return found


def _any_below(fs: Filesystem, folders: Iterable[str]) -> bool:
    return any(below(point, folders) for point in fs.mount_points)


def demanded(fs: Filesystem, host: Host) -> Mapping[str, Profile]:
    """Return the canonical mount options that profiles require, each with its profile."""
    return {
        canonical(token): profile
        for profile in reversed(host.profiles_of(fs))
        for token in profile.options
    }


def forbidden(fs: Filesystem, host: Host) -> Mapping[str, Profile]:
    """Return the canonical mount options that profiles forbid, each with its profile."""
    return {
        canonical(token): profile
        for profile in reversed(host.profiles_of(fs))
        for token, _ in profile.forbid
    }


def demands_features(fs: Filesystem, host: Host) -> Mapping[str, Profile]:
    """Return the features that profiles require, each with its profile."""
    return {f: profile for profile in host.profiles_of(fs) for f in profile.features}


def replaced_demands(
    fs: Filesystem, host: Host, changes: Mapping[str, str]
) -> Mapping[str, Profile]:
    """Return the required tokens that `changes`, new tokens by option name, would replace."""
    wanted = demanded(fs, host).items()
    return {token: who for token, who in wanted if changes.get(option_name(token), token) != token}


def states_of(tokens: Iterable[str]) -> Mapping[str, str]:
    """Return the canonical token of each option by name; the last token for an option wins."""
    return {option_name(token): canonical(token) for token in tokens}


def kept_text(kept: Mapping[str, Profile]) -> str:
    """Return a sentence for each required option that is kept; empty if there are none."""
    return "".join(f" {token} is kept: {required_by(who)}." for token, who in kept.items())


def required_by(profile: Profile) -> str:
    """Return a clause that names the product and the profile that require an option."""
    return f"required by {profile.product} (profile {profile.name})"


WARNED_OF: Mapping[str, str] = MappingProxyType(
    {
        "nobarrier": "DUR001",
        "data=writeback": "DUR003",
        "journal_async_commit": "DUR004",
        "errors=continue": "DUR006",
        "noauto_da_alloc": "DUR008",
        "norecovery": "DUR009",
        "nodelalloc": "PRF003",
        "discard": "PRF004",
        "data=journal": "PRF007",
        "strictatime": "PRF008",
        "sync": "PRF012",
        "dirsync": "PRF012",
    }
)
"""The code of the rule that reports each token; some of these rules are off by default."""
LONGEST_COMMIT_SECONDS = 30
"""The longest interval that DUR007 accepts."""
NODELALLOC = "nodelalloc"
HARMLESS_WHEN_SHOWN = frozenset({"noblock_validity", "nodioread_nolock"})
OWNERS = ("resuid=", "resgid=")


def discouraged(tokens: Iterable[str], fs: Filesystem, host: Host) -> Mapping[str, str]:
    """Return the tokens that rules report, with the rule's code, unless a profile requires them."""
    wanted = demanded(fs, host)
    warnings = {**WARNED_OF, **_hidden(fs), **_on_this_kernel(fs, host)}
    return {
        token: code
        for token in map(canonical, tokens)
        if token not in wanted and (code := warnings.get(token) or _by_value(token))
    }


def _hidden(fs: Filesystem) -> Mapping[str, str]:
    """Return the tokens that DUR002 reports only because no mount table shows them."""
    options = for_wording(fs.options, None)
    hidden = options.hidden if options else ()
    tokens = HARMLESS_WHEN_SHOWN.intersection(option.token for option in hidden)
    return dict.fromkeys(tokens, "DUR002")


def _on_this_kernel(fs: Filesystem, host: Host) -> Mapping[str, str]:
    """Return dioread_nolock if PRF001 reports it: nodelalloc is in force or required."""
    option = option_of(fs, "delalloc")
    # A nodelalloc that data=journal implies is removed together with that mode.
    by_journal = option is not None and option.set_by is Provenance.IMPLIED
    off = option is not None and option.token == NODELALLOC and not by_journal
    if not off and NODELALLOC not in demanded(fs, host):
        return {}
    exposed = exposure("PRF001", host.kernel)
    affected = isinstance(exposed, Known) and exposed.value.affected
    return {"dioread_nolock": "PRF001"} if affected else {}


def warning_text(tokens: Mapping[str, str]) -> str:
    """Return a clause that names the rule for each token; empty if there are no tokens."""
    return ", ".join(f"{code} reports {token}" for token, code in tokens.items())


def _by_value(token: str) -> str | None:
    """Return the code of the rule that reports an option because of its value, or None."""
    name, _, value = token.partition("=")
    if name == "commit" and (whole_number(value) or 0) > LONGEST_COMMIT_SECONDS:
        return "DUR007"
    return "SEC003" if token.startswith(OWNERS) and value != "0" else None


ORDERED = "data=ordered"
ASYNC_COMMIT = "journal_async_commit"


def data_mode(fs: Filesystem) -> str:
    """Return the data= token in force; raises NotApplicable without a journal."""
    refuse_unmounted(fs)
    options = need(fs.options)
    if options.lacks("data"):
        raise NotApplicable("it runs without a journal, so it has no data mode")
    return need(options.token("data"))


def back_to_ordered(fs: Filesystem, host: Host, *, trade_off: str) -> Remedy:
    """Return the remedy that returns to data=ordered."""
    others, beside = beside_ordered(fs, host)
    wanted = {"data": ORDERED, **others}
    return Remedy(
        f"Mount with {ORDERED}; a remount cannot change the mode.{beside}"
        f"{remedies.mounting.left_by_hand(fs)}{what_else_sets_it(fs, host, 'data')}",
        remedies.mounting.disruption_of_new_mount(fs),
        remedies.mounting.change_by_new_mount(fs, wanted, explicit="delalloc" in wanted),
        trade_off=trade_off,
    )


def beside_ordered(fs: Filesystem, host: Host) -> tuple[dict[str, str], str]:
    """Return the options to change together with data=ordered, and the sentences that explain it.

    The kernel refuses journal_async_commit with data=ordered. data=journal disables delalloc; if
    a profile requires nodelalloc, data=ordered needs it set explicitly.
    """
    wanted: dict[str, str] = {}
    why = ""
    if _has_async_commit(fs, host):
        wanted[ASYNC_COMMIT] = remedies.mounting.NOT_SET
        why = f" {ASYNC_COMMIT} is removed too: the kernel refuses it in this mode."
    profile = demanded(fs, host).get(NODELALLOC)
    option = need(fs.options).find("delalloc")
    is_implied = option is not None and option.set_by is Provenance.IMPLIED
    if not (profile and option and option.token == NODELALLOC and is_implied):
        return wanted, why
    if refused_at_boot(fs, host, "delalloc", NODELALLOC):
        why += f" Set {NODELALLOC} in rootflags= as well: {required_by(profile)}."
    else:
        wanted["delalloc"] = NODELALLOC
        if discouraged(["dioread_nolock"], fs, host):
            wanted["dioread_nolock"] = "nodioread_nolock"
        why += f" {NODELALLOC} is set: {required_by(profile)}."
    return wanted, why


def _has_async_commit(fs: Filesystem, host: Host) -> bool:
    """Return whether journal_async_commit is in force, or set in fstab or rootflags=."""
    in_force = is_in_force(need(fs.options), ASYNC_COMMIT)
    configured = fstab_lines(fs, ASYNC_COMMIT) or in_rootflags(fs, host, ASYNC_COMMIT)
    return in_force or bool(configured)
