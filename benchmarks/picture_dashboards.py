"""Pictures of a training as Prefect's and Dask's pages show it, taken in a headless browser.

    python benchmarks/picture_dashboards.py pool.npz docs/img

Starts a Prefect server of its own, trains on the pool, and writes dask-dashboard.png (during
the run), prefect-run.png and prefect-artifacts.png. Needs selenium, and Debian's
chromium and chromium-driver.
"""

from __future__ import annotations

import argparse
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from PIL import Image
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
WIDTH, HEIGHT = 1280, 900


@contextmanager
def browser(folder: Path) -> Iterator[webdriver.Chrome]:
    """A headless browser with a fresh profile."""
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for flag in (*FLAGS, f"--user-data-dir={folder}", f"--window-size={WIDTH},{HEIGHT}"):
        options.add_argument(flag)
    driver = webdriver.Chrome(options, Service("/usr/bin/chromedriver"))
    try:
        yield driver
    finally:
        driver.quit()


@contextmanager
def prefect_server(home: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """A server on a database of its own: its address, and the environment that names it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    url = f"http://127.0.0.1:{port}"
    environment = {
        **os.environ,
        "PREFECT_HOME": str(home),
        "PREFECT_API_URL": f"{url}/api",
        "PREFECT_UI_API_URL": f"{url}/api",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",
    }
    command = ("-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", port)
    with (home / "server.log").open("wb") as log:
        server = subprocess.Popen(
            [sys.executable, *command], env=environment, stdout=log, stderr=log
        )
    try:
        for _ in range(240):
            time.sleep(0.5)
            try:
                urllib.request.urlopen(f"{url}/api/health", timeout=5).close()
                break
            except OSError:
                continue
        yield url, environment
    finally:
        server.terminate()
        server.wait()


def save(driver: webdriver.Chrome, image: Path) -> None:
    """What the browser shows, in few colors to keep the file small."""
    with tempfile.TemporaryDirectory() as folder:
        shot = Path(folder) / "shot.png"
        driver.save_screenshot(str(shot))
        with Image.open(shot) as picture:
            picture.convert("RGB").quantize(128).save(image, optimize=True)
    print(f"{image}: {image.stat().st_size // 1000} kB")


def wait_until(happened: Callable[[], bool], process: subprocess.Popen[bytes], log: Path) -> None:
    """Poll while a training runs."""
    while not happened():
        if process.poll() is not None:
            raise SystemExit(f"the training ended too early: {log.read_text()}")
        time.sleep(0.1)


def dask_page(
    driver: webdriver.Chrome, run: Path, training: subprocess.Popen[bytes], log: Path, image: Path
) -> None:
    """Dask's page from its start on, pictured after the checks of the graph; the pointer is on the
    search for neighbors, so that its name shows."""
    links: list[str] = []

    def linked() -> bool:
        links[:] = re.findall(r"Dask dashboard: (http\S+)", log.read_text())
        return bool(links)

    wait_until(linked, training, log)
    driver.get(links[-1])
    wait_until(lambda: any(run.glob("ledger/checks/*.json")), training, log)
    time.sleep(1.0)
    ActionChains(driver).move_by_offset(WIDTH * 5 // 8, 160).perform()  # the first worker's, or
    time.sleep(0.7)
    ActionChains(driver).move_by_offset(0, 210).perform()  # the second's
    time.sleep(0.7)
    save(driver, image)


def prefect_pages(driver: webdriver.Chrome, url: str, folder: Path) -> None:
    """The page of the last flow run, then its artifacts."""
    driver.get(f"{url}/runs")
    link = WebDriverWait(driver, 60).until(
        lambda d: d.find_elements(By.CSS_SELECTOR, "a[href*='/runs/flow-run/']")
    )[0]
    page = str(link.get_attribute("href"))
    driver.get(page)
    time.sleep(8)
    save(driver, folder / "prefect-run.png")
    tab = driver.find_elements(By.XPATH, "//*[normalize-space(.)='Artifacts']")[-1]
    ActionChains(driver).move_to_element(tab).click().perform()
    time.sleep(3)
    driver.execute_script("arguments[0].scrollIntoView()", tab)
    time.sleep(2)
    save(driver, folder / "prefect-artifacts.png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pool", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--k", default="30")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as work,
        prefect_server(Path(work)) as (url, environment),
        browser(Path(work) / "browser") as driver,
    ):
        run, log = Path(work) / "run", Path(work) / "train.log"
        command = ["-m", "flows.cli", "train", str(args.pool), "--run", str(run), "--k", args.k]
        with log.open("wb") as sink:
            training = subprocess.Popen(
                [sys.executable, *command, "--workers", "2"],
                env=environment,
                stdout=sink,
                stderr=sink,
            )
        dask_page(driver, run, training, log, args.folder / "dask-dashboard.png")
        if training.wait() != 0:
            raise SystemExit(log.read_text())
        prefect_pages(driver, url, args.folder)


if __name__ == "__main__":
    main()
