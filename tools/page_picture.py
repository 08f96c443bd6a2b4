"""Take the picture of the page for the README: a 1 that has turned, at some angle.

python tools/page_picture.py docs/images/page.png http://127.0.0.1:8000 80

Needs a running `nescio serve`, Chromium and Playwright.
"""

import io
import shutil
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, expect, sync_playwright

SIZE = {"width": 1280, "height": 1040}
COLOURS = 128  # of the file: enough for a page, and a third of the bytes


def pose(page: Page, angle: str) -> None:
    """Turn the 1 all the way, then to the angle."""
    expect(page.locator("#opinion")).to_have_text("It is a 1", timeout=30_000)
    page.get_by_role("button", name="Turn by itself").click()
    expect(page.get_by_role("button", name="Stop turning")).to_be_visible()
    expect(page.get_by_role("button", name="Turn by itself")).to_be_visible(timeout=120_000)
    with page.expect_response("**/v1/opinions"):
        page.get_by_label("Turn it", exact=True).fill(angle)
    page.mouse.move(0, 0)
    page.wait_for_timeout(1000)  # the bars have grown


def main(path: Path, address: str, angle: str) -> None:
    """Write the picture."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        page = browser.new_page(viewport=SIZE)  # type: ignore[arg-type]
        page.goto(address)
        pose(page, angle)
        picture = Image.open(io.BytesIO(page.screenshot()))
        browser.close()
    path.parent.mkdir(parents=True, exist_ok=True)
    picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)
    print(f"{path}: {path.stat().st_size / 1024:.0f} KB")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
