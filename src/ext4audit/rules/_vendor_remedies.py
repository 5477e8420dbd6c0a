"""Put what a vendor demands in force, together with what another rule asks for beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ext4audit.evidence import Known
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.kernel_bugs import exposure
from ext4audit.facts.option_table import recognize
from ext4audit.finding import Disruption, Remedy
from ext4audit.rules._setters import what_else_sets_it
from ext4audit.rules._steps import change_options, disruption


def option_remedies(fs: Filesystem, host: Host, words: Sequence[str]) -> Iterator[Remedy]:
    """Yield the remedy that puts words in force now and for good."""
    tokens = {known[0].name: known[1] for known in map(recognize, words) if known is not None}
    beside = _beside(host, tokens)
    steps = change_options(fs, {**tokens, **beside})
    also = ", with dioread_lock, because of PRF001 on this kernel" if beside else ""
    elsewhere = "".join(dict.fromkeys(what_else_sets_it(fs, host, name) for name in tokens))
    yield Remedy(
        f"Put {', '.join(words)} in force and into fstab{also}.{elsewhere}",
        disruption(steps) if steps else Disruption.REMOUNT,
        steps,
    )


def _beside(host: Host, tokens: dict[str, str]) -> dict[str, str]:
    """Return what must go with nodelalloc where dioread_nolock would make writes slow."""
    if tokens.get("delalloc") != "nodelalloc":
        return {}
    exposed = exposure("PRF001", host.kernel)
    affected = isinstance(exposed, Known) and exposed.value.affected
    return {"dioread_nolock": "nodioread_nolock"} if affected else {}
