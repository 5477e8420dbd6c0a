"""The options that a filesystem is to be made with, as mke2fs(8) takes them."""

from __future__ import annotations

from collections.abc import Iterator

from ext4audit.records import dataclass, replace


@dataclass(frozen=True, slots=True)
class MkfsWords:
    """What is said to mke2fs, apart from the device.

    `values` are the flags with a value, in the order in which they were given; `manner` are the
    flags that change how mke2fs works and not what it makes (-F, -q). `features` are the words
    of -O and `extended` those of -E, which mke2fs takes only once (1.47.0: of two, the first is
    lost without a word).
    """

    values: tuple[tuple[str, str], ...] = ()
    features: tuple[str, ...] = ()
    extended: tuple[str, ...] = ()
    manner: tuple[str, ...] = ()

    def words(self) -> tuple[str, ...]:
        """Return the words of the command line that decide what is made."""
        pairs = [word for pair in self.values for word in pair]
        features = ["-O", ",".join(self.features)] if self.features else []
        extended = ["-E", ",".join(self.extended)] if self.extended else []
        return (*pairs, *features, *extended)

    def value(self, flag: str) -> str | None:
        """Return the value of a flag, the last one where it was given twice."""
        return next((value for name, value in reversed(self.values) if name == flag), None)

    def says(self, key: str) -> bool:
        """Whether -E has a word of this name; mke2fs takes "-" and "_" in names alike."""
        return any(_key(word) == _key(key) for word in self.extended)

    def with_value(self, flag: str, value: str) -> MkfsWords:
        """Return the options with a flag set, where it stood before or at the end."""
        if self.value(flag) is None:
            return replace(self, values=(*self.values, (flag, value)))
        changed = tuple((name, value if name == flag else old) for name, old in self.values)
        return replace(self, values=changed)

    def without_value(self, flag: str) -> MkfsWords:
        """Return the options without a flag."""
        return replace(self, values=tuple(pair for pair in self.values if pair[0] != flag))

    def with_extended(self, *words: str) -> MkfsWords:
        """Return the options with words added to -E; what was said before stays."""
        new = tuple(word for word in words if not self.says(word))
        return replace(self, extended=(*self.extended, *new))

    def without_extended(self, *keys: str) -> MkfsWords:
        """Return the options without the words of -E of these names."""
        unwanted = {_key(key) for key in keys}
        kept = tuple(word for word in self.extended if _key(word) not in unwanted)
        return replace(self, extended=kept)

    def with_features_first(self, *words: str) -> MkfsWords:
        """Return the options with features said before those of the user, which win."""
        return replace(self, features=(*words, *self.features))

    def shorter(self) -> Iterator[tuple[str, MkfsWords]]:
        """Yield each option's words with the options that remain without it."""
        for index, (flag, value) in enumerate(self.values):
            rest = (*self.values[:index], *self.values[index + 1 :])
            yield f"{flag} {value}", replace(self, values=rest)
        for index, word in enumerate(self.features):
            left = (*self.features[:index], *self.features[index + 1 :])
            yield f"-O {word}", replace(self, features=left)
        for word in self.extended:
            yield f"-E {word}", self.without_extended(word)


def _key(word: str) -> str:
    """Return the name of a word of -E, in one spelling."""
    return word.partition("=")[0].replace("-", "_")
