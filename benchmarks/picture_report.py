"""Pictures of a report's page by Chromium, light and dark, as shown in the docs.

    knnoise report --run RUN --html report.html
    python -m benchmarks.picture_report report.html "#heat" docs/img/report-classes.png [--dark]

The picture begins with the section that holds the element named, and is as high as asked.
"""

from __future__ import annotations

import argparse
import base64
import shutil
import tempfile
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

WIDTH = 1180
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")
SECTION = "document.querySelector(arguments[0]).closest('section, body').getBoundingClientRect()"


def picture(page: Path, element: str, height: int, *, dark: bool) -> bytes:
    """The page from the element's section on, as PNG."""
    options = webdriver.ChromeOptions()
    with tempfile.TemporaryDirectory() as profile:
        for flag in (*FLAGS, f"--user-data-dir={profile}", f"--window-size={WIDTH},{height}"):
            options.add_argument(flag)
        options.binary_location = shutil.which("chromium") or ""
        driver = Service(shutil.which("chromedriver"))
        browser = webdriver.Chrome(options=options, service=driver)
        try:
            scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
            browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
            browser.get(page.resolve().as_uri())
            top = browser.execute_script(f"return {SECTION}.top + scrollY", element)
            clip = {"x": 0, "y": max(0, top - 16), "width": WIDTH, "height": height, "scale": 0.7}
            asked = {"clip": clip, "captureBeyondViewport": True}
            shot = browser.execute_cdp_cmd("Page.captureScreenshot", asked)
        finally:
            browser.quit()
    return base64.b64decode(shot["data"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("page", type=Path)
    parser.add_argument("element", help="CSS selector")
    parser.add_argument("image", type=Path)
    parser.add_argument("--height", type=int, default=900)
    parser.add_argument("--dark", action="store_true")
    args = parser.parse_args()
    args.image.write_bytes(picture(args.page, args.element, args.height, dark=args.dark))


if __name__ == "__main__":
    main()
