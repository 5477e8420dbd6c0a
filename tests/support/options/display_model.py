"""A small model of how the kernel composes and prints ext4's options, for property tests.

It follows the documented rule and not the resolver. Options come from defaults, superblock bits,
the superblock string and mount options. The mount table prints a switch if it differs from the
first three combined, a value if it differs from the compiled default, and errors= if it differs
from the superblock's field (`_ext4_show_options`, fs/ext4/super.c).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from ext4audit.facts.mount import EffectiveOptions
from support.builders import superblock
from support.options.evidence import NO_FILE, NO_SUPERBLOCK, resolve

SWITCHES = {
    "barrier": ("barrier", "nobarrier"),
    "delalloc": ("delalloc", "nodelalloc"),
    "auto_da_alloc": ("auto_da_alloc", "noauto_da_alloc"),
    "discard": ("discard", "nodiscard"),
    "dioread_nolock": ("dioread_nolock", "nodioread_nolock"),
    "block_validity": ("block_validity", "noblock_validity"),
    "grpid": ("grpid", "nogrpid"),
    "user_xattr": ("user_xattr", "nouser_xattr"),
    "acl": ("acl", "noacl"),
}
VALUES = {
    "data": ("data=ordered", "data=writeback", "data=journal"),
    "errors": ("errors=continue", "errors=remount-ro", "errors=panic"),
    "commit": ("commit=5", "commit=30", "commit=1"),
    "stripe": ("stripe=64", "stripe=1536"),
    "min_batch_time": ("min_batch_time=0", "min_batch_time=100"),
}
BITS = {
    "nobarrier": "nobarrier",
    "nodelalloc": "nodelalloc",
    "discard": "discard",
    "bsdgroups": "grpid",
    "journal_data": "data=journal",
    "journal_data_writeback": "data=writeback",
}
OFF_WITH_DATA_JOURNAL = {"delalloc": "nodelalloc", "dioread_nolock": "nodioread_nolock"}
ON_BY_DEFAULT = ("barrier", "delalloc", "auto_da_alloc", "block_validity", "user_xattr", "acl")


def settings_of() -> Mapping[str, st.SearchStrategy[Any]]:
    """Return the strategies for all fields of `Mounted`: kernel, superblock, mount."""
    # acl and user_xattr stay on: a lying table is recognised by them.
    tokens = {n: t for n, t in {**SWITCHES, **VALUES}.items() if n not in {"acl", "user_xattr"}}
    some = st.fixed_dictionaries({}, optional={n: st.sampled_from(t) for n, t in tokens.items()})
    return {
        "release": st.sampled_from(["4.14", "4.19", "5.4", "5.10", "6.1", "6.18"]),
        "bits": st.frozensets(st.sampled_from(sorted(BITS)), max_size=3),
        "string": some,
        "given": some,
        "errors_field": st.sampled_from(["continue", "remount-ro", "panic"]),
        "stripe_field": st.sampled_from([0, 128]),
        "journal": st.booleans(),
    }


@dataclass(frozen=True)
class Mounted:
    """One mounted superblock; options that the kernel rejects in combination are left out."""

    release: str
    bits: frozenset[str]
    string: Mapping[str, str]
    given: Mapping[str, str]
    errors_field: str
    stripe_field: int
    journal: bool

    @property
    def defaults(self) -> dict[str, str]:
        """The kernel's defaults, by option name."""
        on = {
            *ON_BY_DEFAULT,
            *(() if self.release in {"4.14", "4.19", "5.4"} else ("dioread_nolock",)),
        }
        switches = {name: pair[0 if name in on else 1] for name, pair in SWITCHES.items()}
        values = {"data": "data=ordered", "errors": "errors=continue", "commit": "commit=5"}
        rest = {"stripe": "stripe=0", "min_batch_time": "min_batch_time=0"}
        return self._with_journal({**switches, **values, **rest})

    @property
    def from_bits(self) -> dict[str, str]:
        """The options set by superblock bits and fields; of two data modes, the first counts."""
        by_token = {token: name for name, pair in SWITCHES.items() for token in pair}
        tokens = [BITS[word] for word in self._words]
        return {
            **{by_token.get(token, "data"): token for token in tokens},
            "errors": f"errors={self.errors_field}",
            **({"stripe": f"stripe={self.stripe_field}"} if self.stripe_field else {}),
        }

    @property
    def snapshot(self) -> dict[str, str]:
        """The active options of a mount without options."""
        return self._with_effects(
            {**self.defaults, **self.from_bits, **self._accepted(self.string)}
        )

    @property
    def in_force(self) -> dict[str, str]:
        """The active options of this mount."""
        return self._with_effects({**self._raw_snapshot, **self._accepted(self.given)})

    @property
    def omits_comparison(self) -> bool:
        """Whether the mount table omits the comparison with the superblock's defaults."""
        return not self.journal and self.release == "4.14"

    @property
    def may_omit_comparison(self) -> bool:
        """Whether the version number allows a lying kernel; a stable 4.19 does not lie."""
        return not self.journal and self.release in {"4.14", "4.19"}

    def superblock_tokens(self, name: str) -> set[str | None]:
        """Return the tokens of an option in bits, fields and string of the superblock."""
        return {self.from_bits.get(name), self.string.get(name), self.snapshot[name]}

    def is_listed(self, name: str) -> bool:
        """Return whether the mount table prints an option."""
        now, before = self.in_force.get(name), self._raw_snapshot.get(name)
        if name in SWITCHES:
            # A lying table prints exactly the options that are set bits of the option word.
            return now in _SET_BITS if self.omits_comparison else now != before
        if name == "data":
            return self._shows_data
        compared = f"errors={self.errors_field}" if name == "errors" else self.defaults[name]
        return now != compared

    def resolve(self, *, file: bool, superblock_read: bool) -> EffectiveOptions:
        """Return the options that are resolved from the kernel's output for this mount."""
        return resolve(
            self.release,
            file=self._file() if file else NO_FILE,
            table=",".join(["rw", *self._table()]),
            on_disk=self._superblock() if superblock_read else NO_SUPERBLOCK,
        )

    @property
    def _words(self) -> list[str]:
        words = sorted(self.bits)
        modes = [word for word in words if word.startswith("journal_data")]
        return [word for word in words if word not in modes[1:]]

    @property
    def _raw_snapshot(self) -> dict[str, str]:
        """The snapshot that the kernel compares with, before data=journal takes effect."""
        return self._with_journal(
            {**self.defaults, **self.from_bits, **self._accepted(self.string)}
        )

    @property
    def _shows_data(self) -> bool:
        stored = self._accepted(self.string).get("data", self.from_bits.get("data"))
        given = self._accepted(self.given).get("data")
        if not self.journal:
            return False
        if self.release == "4.14" and stored is None:
            return True
        return given is not None and given != stored

    def _with_journal(self, tokens: dict[str, str]) -> dict[str, str]:
        return {n: t for n, t in tokens.items() if n != "data" or self.journal}

    def implied_by(self, tokens: Mapping[str, str]) -> Mapping[str, str]:
        """Return what data=journal turns off, also where the kernel then forgets the mode."""
        mode = tokens.get("data") if self.journal else self.from_bits.get("data")
        return OFF_WITH_DATA_JOURNAL if mode == "data=journal" else {}

    def _with_effects(self, tokens: dict[str, str]) -> dict[str, str]:
        return self._with_journal({**tokens, **self.implied_by(tokens)})

    def _accepted(self, tokens: Mapping[str, str]) -> dict[str, str]:
        """Return what the kernel accepts: no data= without journal, no delalloc if journalled."""
        refused = {"data"} if not self.journal else set()
        stored = self.from_bits.get("data")
        data = self.given.get("data", self.string.get("data", stored)) if self.journal else stored
        if data == "data=journal":
            refused |= set(OFF_WITH_DATA_JOURNAL)
        return {name: token for name, token in tokens.items() if name not in refused}

    def _table(self) -> list[str]:
        return [
            self._as_printed(token) for name, token in self.in_force.items() if self.is_listed(name)
        ]

    def _file(self) -> str:
        tokens = list(self.in_force.values())
        if self.release == "4.14":
            values = [token for token in tokens if "=" in token]
            return " ".join(["rw", *(t for t in tokens if t in _SET_BITS), *values])
        return " ".join(["rw", "bsddf", *map(self._as_printed, tokens)])

    def _as_printed(self, token: str) -> str:
        old = token == "nodioread_nolock" and self.release in {"4.14", "4.19", "5.4"}  # noqa: S105 - an option
        return "dioread_lock" if old else token

    def _superblock(self) -> Any:
        return superblock(
            default_mount_options=tuple(self._words),
            mount_option_string=",".join(
                map(self._as_printed, self._accepted(self.string).values())
            ),
            errors=self.errors_field,
            stripe_width_blocks=self.stripe_field,
            features=frozenset({"has_journal"} if self.journal else set()),
        )


_SET_BITS = frozenset({pair[0] for n, pair in SWITCHES.items() if n != "auto_da_alloc"}) | {
    "noauto_da_alloc"
}
