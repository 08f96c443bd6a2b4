"""Write docs/leaderboard.md from the committed results of the study `successors`.

python tools/leaderboard.py
"""

from pathlib import Path

from nescio.studies.successors._leaderboard import leaderboard
from nescio.studies.successors._results import SuccessorResults

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "results" / "successors"
PAGE = ROOT / "docs" / "leaderboard.md"


def main() -> None:
    """Rewrite the page, and say whether it changed."""
    before = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    after = leaderboard(SuccessorResults.read(FOLDER))
    if after != before:
        PAGE.write_text(after, encoding="utf-8")
        print(f"{PAGE.relative_to(ROOT)} rewritten")


if __name__ == "__main__":
    main()
