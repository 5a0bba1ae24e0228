"""Writes docs/picture.svg, the README's, from the kept audits of a published model: `python docs/make_picture.py`."""

from pathlib import Path

from longrank.audit.card import read_card
from longrank.reports.card import curve_figure

HERE = Path(__file__).parent
CARDS = {
    "the first 512 tokens (FirstP)": "firstp",
    "windows, the best one counts (MaxP)": "maxp",
}


def page() -> str:
    """The drawing: both ways to read documents of the longest length that was audited."""
    longest = {
        label: max(read_card(HERE / "results/audit" / f"{name}.json").lengths, key=lambda at: at.tokens)
        for label, name in CARDS.items()
    }
    (chance,) = {at.absent_expected for at in longest.values()}
    return curve_figure({label: at.curve for label, at in longest.items()}, chance=chance) + "\n"


if __name__ == "__main__":
    (HERE / "picture.svg").write_text(page(), encoding="utf-8")
