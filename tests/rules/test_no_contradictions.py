"""Two statements of one report that contradict each other are one finding that explains."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import permutations, product

import pytest

from builders import filesystem, fstab_entry, host, kernel, known, mount, superblock
from ext4audit.engine import audit
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.mount_flags import SUPERBLOCK_FLAGS
from ext4audit.facts.option_table import OPTIONS, recognize
from ext4audit.facts.profile import ActiveProfile, all_profiles
from ext4audit.finding import Finding
from ext4audit.report import Outcome, Source
from ext4audit.rules import all_rules
from ext4audit.rules._condemned import condemned
from ext4audit.rules._demands import demanded
from ext4audit.rules._remount import typed
from option_evidence import era, resolve
from remedy_effects import ATIME, BITS, State, effect, meanings

LIVE = Source("live", "db1")
RULES = all_rules()
VALUES = (
    "commit=300 commit=60 resuid=1000 resgid=1000 stripe=0 stripe=8191 stripe=128 data=journal "
    "data=writeback data=ordered errors=continue errors=remount-ro errors=panic init_itable=0 "
    "min_batch_time=5 inode_readahead_blks=64 max_dir_size_kb=4 data_err=abort dax=always"
).split()
FLAGS = (
    "sync dirsync lazytime strictatime noatime relatime ro nosuid nodev noexec nodiratime"
).split()
NEVER_WRITTEN = frozenset({"abort", "emergency_ro", "shutdown", "fc_debug_force"})
"""States of a filesystem that nobody can ask for."""
WORDS = tuple(
    dict.fromkeys(
        [
            *(t for s in OPTIONS for t in (s.on, s.off) if t and not t.endswith("=")),
            *VALUES,
            *FLAGS,
        ]
    )
)
WRITTEN = tuple(word for word in WORDS if word not in NEVER_WRITTEN)
PLACES = ("live", "fstab", "live and fstab", "hidden", "hidden and fstab")
RELEASES = ("4.19", "6.1", "6.18")
DEMANDING = ("tidb", "clickhouse", "postgres", "lustre", "daos")
"""One profile for each set of demanded words."""
JUDGED = (
    "nobarrier barrier delalloc nodelalloc noauto_da_alloc dioread_nolock nodioread_nolock discard "
    "data=writeback data=journal data=ordered commit=300 commit=5 journal_async_commit ro nosuid "
    "errors=continue errors=remount-ro errors=panic noatime relatime strictatime sync norecovery "
    "resuid=1000 stripe=0 noblock_validity"
).split()
"""Words that rules judge, and their opposites: two of them may quarrel."""


@dataclass(frozen=True)
class Scene:
    """A filesystem with one odd word in the places that are named, and a second one in fstab."""

    word: str
    place: str
    release: str
    other: str = ""
    mount_point: str = "/data"

    @property
    def state(self) -> State:
        """What is in force and what is written down."""
        plain = meanings(era(self.release).file.split())
        data = {"delalloc": "nodelalloc", "dioread_nolock": "nodioread_nolock"}
        kernel_says = {**plain, ATIME: "relatime"}
        state = State(kernel_says, {})
        bit = next((b for b, token in BITS.items() if token == self.word), None)
        hidden = "hidden" in self.place and self.word not in FLAGS
        errors = self.word.partition("errors=")[2]
        fstab = [typed(self.word)] if "fstab" in self.place else []
        fstab += [typed(self.other)] if self.other else []
        state = State(
            kernel_says,
            {},
            fstab=tuple(fstab or ["defaults"]),
            bits=(bit,) if bit and hidden else (),
            string=self.word if hidden and not bit and not errors else "",
            errors=errors if errors and hidden else "continue",
        )
        live = {**state.stored, **(meanings([self.word]) if "live" in self.place else {})}
        if live["data"] == "data=journal":
            live = {**live, **data}
        return State(kernel_says, live, state.fstab, state.bits, state.string, state.errors)

    @property
    def filesystem(self) -> Filesystem:
        """The filesystem as assembly shows it."""
        state = self.state
        on_disk = superblock(
            default_mount_options=("user_xattr", "acl", *state.bits),
            mount_option_string=state.string,
            errors=state.errors,
        )
        flags = [w for w in FLAGS if w in (state.live.get(w), state.live.get(ATIME))]
        of_super = [flag for flag in flags if flag in SUPERBLOCK_FLAGS]
        file = "\n".join(t for n, t in state.live.items() if n not in {ATIME, *FLAGS})
        stored = state.stored
        shown = [
            t for n, t in state.live.items() if n not in {ATIME, *FLAGS} and stored.get(n) != t
        ]
        table = ",".join(("ro" if "ro" in flags else "rw", *of_super, *shown))
        options = resolve(self.release, file=f"rw\n{file}", table=table, on_disk=on_disk)
        there = mount(
            self.mount_point,
            flags=(
                "ro" if "ro" in flags else "rw",
                *(f for f in flags if f not in {"ro", "strictatime", *SUPERBLOCK_FLAGS}),
            ),
            super_options=table.split(","),
        )
        return filesystem(
            mounts=(there,),
            superblock=known(on_disk, "dumpe2fs -h /dev/sda"),
            read_only=known("ro" in flags),
            options=known(options, options.source),
            fstab=known((fstab_entry(*state.fstab, mount_point=self.mount_point),), "/etc/fstab"),
        )

    def host(self, profile: str | None) -> Host:
        """Return the host of the filesystem, for which a profile may be chosen."""
        fs = self.filesystem
        active = (ActiveProfile(all_profiles()[profile]),) if profile else ()
        release = known(kernel(era(self.release).release), "uname")
        return host(fs, kernel=release, fstab=fs.fstab, profiles=active)


SINGLE = [Scene(*each) for each in product(WRITTEN, PLACES, RELEASES)]
OF_THE_ROOT = [Scene(word, place, "6.1", "", "/") for word, place in product(WRITTEN, PLACES)]
PAIRS = [
    Scene(word, place, "6.1", other)
    for word, other in permutations(JUDGED, 2)
    for place in ("live", "hidden")
]


def findings(scene: Scene, judged: Host) -> list[tuple[str, Finding]]:
    """Return what all rules say, with the code of the rule."""
    report = audit(LIVE, judged, RULES)
    assert not [v.note for v in report.verdicts if v.outcome is Outcome.ERROR]
    return [(v.rule.code, finding) for v in report.verdicts for finding in v.findings]


def orders(scene: Scene, judged: Host) -> Iterator[tuple[str, State]]:
    """Yield what each remedy leaves behind, with the code of its rule."""
    for code, finding in findings(scene, judged):
        for remedy in finding.remedies:
            yield code, effect(remedy, scene.state)


def changed(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str]:
    """Return the options that are others after than before, by name; "" for none."""
    names = {*before, *after}
    return {n: after.get(n, "") for n in names if after.get(n) != before.get(n)}


def told(state: State, before: State) -> dict[str, set[str]]:
    """Return the tokens that an order makes true, by option: in force, or at the next mount."""
    said: dict[str, set[str]] = {}
    for one, other in ((before.live, state.live), (before.next, state.next)):
        for name, token in changed(one, other).items():
            said.setdefault(name, set()).add(token)
    return said


def problems(scene: Scene, profile: str | None) -> Iterator[str]:
    """Yield what is wrong with the remedies of a report, in words."""
    judged = scene.host(profile)
    fs, before = judged.filesystems[0], scene.state
    wanted = demanded(fs, judged)
    said = [(code, state, told(state, before)) for code, state in orders(scene, judged)]
    for code, _, tokens in said:
        bad = condemned([t for ts in tokens.values() for t in ts if t], fs, judged)
        yield from (f"{code} orders {word}, which {other} warns of" for word, other in bad.items())
    for code, state, _ in said:
        for word in wanted:
            name = known_name(word)
            for place, one, other in (
                ("in force", before.live, state.live),
                ("next", before.next, state.next),
            ):
                if one.get(name) == word and other.get(name) != word:
                    yield f"{code} takes away {word}, which {profile} demands ({place})"
    for (code, _, one), (other, _, two) in permutations(said, 2):
        for name in one.keys() & two.keys():
            if code < other and one[name] != two[name]:
                yield f"{code} orders {name} {one[name]}, {other} {two[name]}"


def known_name(word: str) -> str:
    """Return the option that a word sets, or the access times."""
    recognized = recognize(word)
    return recognized[0].name if recognized else ATIME


def told_of(scenes: Iterable[Scene], profile: str | None = None) -> str:
    """Return all problems of some filesystems, a line each."""
    found = {
        f"{scene}: {problem}": None for scene in scenes for problem in problems(scene, profile)
    }
    return "\n".join(found)


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("place", PLACES)
def test_no_statement_of_a_report_contradicts_another(place: str, release: str) -> None:
    """Whatever single word is in force, written down or hidden.

    No remedy puts in force or writes down what another finding orders away or what a rule warns
    of, and no two findings order an option into different states.
    """
    scenes = [scene for scene in SINGLE if (scene.place, scene.release) == (place, release)]
    assert told_of(scenes) == ""


def test_no_statement_on_the_root_contradicts_another() -> None:
    """The root cannot be unmounted, and DRF004 judges its data mode."""
    assert told_of(OF_THE_ROOT) == ""


@pytest.mark.parametrize("profile", DEMANDING)
def test_no_statement_contradicts_a_profile(profile: str) -> None:
    """No remedy takes away what a profile demands, or writes down something else for it."""
    assert told_of([scene for scene in SINGLE if scene.release == "6.1"], profile) == ""


def test_tidb_is_not_contradicted_on_a_kernel_where_nodelalloc_is_slow() -> None:
    """PRF001 and the profile want the same pair: nodelalloc with dioread_lock."""
    assert told_of([scene for scene in SINGLE if scene.release == "4.19"], "tidb") == ""


@pytest.mark.parametrize("word", JUDGED)
def test_no_statement_contradicts_another_where_fstab_says_something_else(word: str) -> None:
    """One word is in force or hidden, and fstab asks for another."""
    assert told_of(scene for scene in PAIRS if scene.word == word) == ""


@pytest.mark.parametrize("word", ["nodelalloc", "dioread_nolock", "noatime", "data=journal"])
def test_no_statement_contradicts_tidb_where_fstab_says_something_else(word: str) -> None:
    """The same with a profile, on a kernel that PRF001 warns of."""
    scenes = (replace(scene, release="4.19") for scene in PAIRS if scene.word == word)
    assert told_of(scenes, "tidb") == ""
