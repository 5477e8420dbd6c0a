from __future__ import annotations

import re

import pytest

from ext4audit.renderers.html import ENVIRONMENT

STYLE = ENVIRONMENT.get_template("style.css").render()
LIGHT, DARK = re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL)

PAIRS = [
    *((f"on-{look}", look) for look in "critical high medium low info open fine gone".split()),
    *((ink, ground) for ink in ("ink", "faint", "link") for ground in ("ground", "panel")),
]
SHAPES = [
    (shape, ground)
    for shape in "bitmaps tables descriptors focus".split()
    for ground in ("ground", "panel")
]


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize(
    ("front", "back", "least"),
    [*((*pair, 4.5) for pair in PAIRS), *((*pair, 3.0) for pair in SHAPES)],
)
def test_colours_have_wcag_contrast(theme: str, front: str, back: str, least: float) -> None:
    """Text has 4.5:1 and shapes 3:1 in both themes (WCAG 2.2, 1.4.3 and 1.4.11, level AA)."""
    colours = dict(re.findall(r"--([a-z-]+): #([0-9a-f]{6});", theme))
    light, dark = sorted((luminance(colours[front]), luminance(colours[back])), reverse=True)
    assert (light + 0.05) / (dark + 0.05) >= least


def test_dark_theme_has_every_colour_of_the_light_theme() -> None:
    """A colour without a dark variant would keep its light value on a dark background."""
    assert re.findall(r"--[a-z-]+", DARK) == re.findall(r"--[a-z-]+", LIGHT)


def luminance(colour: str) -> float:
    """Return the relative luminance of a colour (WCAG 2.2)."""
    shares = [int(colour[start : start + 2], 16) / 255 for start in (0, 2, 4)]
    linear = [
        share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
