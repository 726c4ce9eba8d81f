"""Pictures of a report's page or a review's by Chromium, light and dark, as shown in the docs.

    knnoise report --run RUN --html report.html
    python -m benchmarks.picture_report report.html "#heat" docs/img/report-classes.png [--dark]
    knnoise review --run RUN --image-shape 28x28
    python -m benchmarks.picture_report ADDRESS .card docs/img/review-images.png --keys sss

The picture begins with the section that holds the element named, once it is there and keys are
pressed, and is as wide and high as asked.
"""

from __future__ import annotations

import argparse
import base64
import shutil
import tempfile
import time
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")
SECTION = "document.querySelector(arguments[0]).closest('section, body').getBoundingClientRect()"


SETTLED = 1.0
"""Seconds for what is loaded as keys are pressed."""


def picture(address: str, element: str, width: int, height: int, keys: str, *, dark: bool) -> bytes:
    """The page from the element's section on, as PNG."""
    options = webdriver.ChromeOptions()
    with tempfile.TemporaryDirectory() as profile:
        for flag in (*FLAGS, f"--user-data-dir={profile}", "--hide-scrollbars"):
            options.add_argument(flag)
        options.binary_location = shutil.which("chromium") or ""
        driver = Service(shutil.which("chromedriver"))
        browser = webdriver.Chrome(options=options, service=driver)
        try:
            scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
            browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
            screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
            browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
            browser.get(address)
            WebDriverWait(browser, 10).until(lambda b: b.find_elements(By.CSS_SELECTOR, element))
            for key in keys:
                browser.switch_to.active_element.send_keys(key)
                time.sleep(SETTLED)
            top = browser.execute_script(f"return {SECTION}.top + scrollY", element)
            clip = {"x": 0, "y": max(0, top - 16), "width": width, "height": height, "scale": 1}
            asked = {"clip": clip, "captureBeyondViewport": True}
            shot = browser.execute_cdp_cmd("Page.captureScreenshot", asked)
        finally:
            browser.quit()
    return base64.b64decode(shot["data"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("page", help="a file, or the address that knnoise review prints")
    parser.add_argument("element", help="CSS selector")
    parser.add_argument("image", type=Path)
    parser.add_argument("--width", type=int, default=1180)
    parser.add_argument("--height", type=int, default=900)
    parser.add_argument("--keys", default="", help="pressed one after another")
    parser.add_argument("--dark", action="store_true")
    args = parser.parse_args()
    address = args.page if "://" in args.page else Path(args.page).resolve().as_uri()
    args.image.write_bytes(
        picture(address, args.element, args.width, args.height, args.keys, dark=args.dark)
    )


if __name__ == "__main__":
    main()
