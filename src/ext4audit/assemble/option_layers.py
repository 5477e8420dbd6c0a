"""The layers of one option below mount(2): kernel default, superblock bits, string, fields."""

from __future__ import annotations

from ext4audit.evidence import Evidence, Known
from ext4audit.facts.kernel import Kernel
from ext4audit.facts.option_table import (
    DEFAULT_OFF_BELOW_PAGE_SIZE,
    NOT_EXT4_FSTYPE_DEFAULTS,
    OptionSpec,
)
from ext4audit.facts.options import Layer, Setter
from ext4audit.facts.superblock import Superblock

X86_PAGE_BYTES = 4096


def option_layers(
    spec: OptionSpec,
    kernel: Evidence[Kernel],
    superblock: Evidence[Superblock],
    fstype: str | None,
) -> tuple[Layer, ...]:
    """Return what each source below mount(2) says of an option, in the order of application."""
    if spec.name == "data" and isinstance(superblock, Known) and not superblock.value.has_journal:
        # Whatever the bits say, ext4_fill_super() then clears the data mode.
        return ()
    layers = []
    default = kernel_default(spec, kernel, superblock, fstype)
    if default is not None and isinstance(kernel, Known):
        layers.append(Layer(Setter.KERNEL_DEFAULT, default, f"Linux {kernel.value.release}"))
    if isinstance(superblock, Known):
        layers += _superblock_layers(spec, superblock.value, superblock.origin)
    return tuple(layers)


def kernel_default(
    spec: OptionSpec,
    kernel: Evidence[Kernel],
    superblock: Evidence[Superblock],
    fstype: str | None,
) -> str | None:
    """Return the kernel's default token for this superblock, None where it is not verified."""
    if not isinstance(kernel, Known):
        return None
    if fstype not in {"ext4", None} and spec.name in NOT_EXT4_FSTYPE_DEFAULTS:
        return NOT_EXT4_FSTYPE_DEFAULTS[spec.name]
    if spec.name == "dioread_nolock" and not _default_holds(kernel.value, superblock):
        return None
    return spec.default(kernel.value.upstream)


def _default_holds(kernel: Kernel, superblock: Evidence[Superblock]) -> bool:
    """Whether dioread_nolock's default is certain: for some years small blocks had another."""
    since, before = DEFAULT_OFF_BELOW_PAGE_SIZE
    if not since <= kernel.upstream < before:
        return True
    known = isinstance(superblock, Known) and superblock.value.block_bytes == X86_PAGE_BYTES
    return known and not any(word in kernel.release for word in ("aarch64", "arm64", "ppc64"))


def _stripe(superblock: Superblock) -> str | None:
    """Return the stripe that the kernel takes from the fields (ext4_get_stripe_size).

    One block is no stripe, and mke2fs writes stride 1 and width 1 for disks that report 4 KiB
    as their optimal I/O size; a stripe wider than a block group is passed over.
    """
    most = superblock.blocks_per_group
    fields = (superblock.stripe_width_blocks, superblock.stride_blocks)
    taken = next((blocks for blocks in fields if blocks and (most is None or blocks <= most)), 0)
    return f"stripe={taken}" if taken > 1 else None


def _superblock_layers(spec: OptionSpec, superblock: Superblock, origin: str) -> list[Layer]:
    layers = []
    bits = [
        spec.superblock_bits[word]
        for word in superblock.default_mount_options
        if word in spec.superblock_bits
    ]
    if bits:
        layers.append(Layer(Setter.SUPERBLOCK_BITS, bits[-1], origin))
    field = {
        "errors": f"errors={superblock.errors}",
        "stripe": _stripe(superblock),
    }.get(spec.name)
    if field is not None:
        layers.append(Layer(Setter.SUPERBLOCK_FIELD, field, origin))
    words = [spec.recognize(word) for word in superblock.mount_option_string.split(",")]
    in_string = [word for word in words if word]
    if in_string:
        layers.append(Layer(Setter.SUPERBLOCK_STRING, in_string[-1], origin))
    return layers
