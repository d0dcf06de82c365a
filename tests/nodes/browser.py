"""A person at a browser: Debian's Chromium without a window, driven by Selenium, which cannot leave this machine."""

from __future__ import annotations

import ipaddress
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import psutil
import pytest
from selenium.common.exceptions import NoSuchElementException, StaleElementReferenceException
from selenium.webdriver import Chrome, ChromeOptions, ChromeService
from selenium.webdriver.common.by import By
from selenium.webdriver.support.expected_conditions import element_to_be_clickable
from selenium.webdriver.support.wait import WebDriverWait

from tests.eventually import eventually

T = TypeVar("T")

PRESS_S = 20.0
"""How long a page may take until what was just loaded can be pressed."""

END_S = 10.0

NOWHERE = "127.0.0.1:9"
"""A proxy that is not there. Chromium asks a proxy for everything but loopback, so whatever it wants elsewhere ends
here, names unresolved: its switches alone do not keep it from asking for the time, updates and a start page."""

SWITCHES = (
    "--headless=new",
    f"--proxy-server={NOWHERE}",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-component-extensions-with-background-pages",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--window-size=1280,1024",
    *(["--no-sandbox"] if os.geteuid() == 0 else []),  # Chromium refuses to sandbox itself for root
)


def installed() -> tuple[str, str]:
    """Chromium and its driver; where one is missing the test is skipped with a line, and fails in CI."""
    found = [shutil.which(name) for name in ("chromium", "chromedriver")]
    if all(found):
        return str(found[0]), str(found[1])
    line = "no browser for Flower's page: apt-get install chromium chromium-driver"
    if os.environ.get("CI") == "true":
        pytest.fail(line)
    pytest.skip(line)


class Browser:
    """What a person sees and presses."""

    def __init__(self, driver: Chrome) -> None:
        self._driver = driver

    def open(self, url: str) -> None:
        self._driver.get(url)

    @property
    def buttons(self) -> list[str]:
        """The words on the buttons that are to be seen."""

        def seen() -> list[str]:
            found = self._driver.find_elements(By.TAG_NAME, "button")
            return [button.text for button in found if button.is_displayed() and button.text]

        return _whole_page(seen)

    def press(self, words: str) -> None:
        """Press the button with these words, once it is to be seen and takes a click."""
        button = (By.XPATH, f"//button[normalize-space()='{words}']")
        WebDriverWait(self._driver, PRESS_S).until(element_to_be_clickable(button)).click()

    @property
    def text(self) -> str:
        """All that can be read on the page."""
        return _whole_page(lambda: self._driver.find_element(By.TAG_NAME, "body").text)

    @property
    def source(self) -> str:
        """The page as the browser holds it, after its scripts have run."""
        return str(self._driver.page_source)


def _whole_page(read: Callable[[], T]) -> T:
    """What is read of one page: Flower's reloads by itself, also while somebody reads."""

    def once() -> tuple[T] | None:
        try:
            return (read(),)
        except (StaleElementReferenceException, NoSuchElementException):
            return None

    found = eventually(once, "the page stands still")
    assert found is not None
    return found[0]


@contextmanager
def browsing(folder: Path) -> Iterator[Browser]:
    """A browser with a new profile in `folder`; afterwards all its processes have ended, and it has met only us."""
    chromium, chromedriver = installed()
    options = ChromeOptions()
    options.binary_location = chromium
    log = folder / "net.json"
    for switch in (*SWITCHES, f"--user-data-dir={folder / 'profile'}", f"--log-net-log={log}"):
        options.add_argument(switch)
    service = ChromeService(chromedriver, env={**os.environ, "HOME": str(folder)})
    driver = Chrome(options, service)
    started = psutil.Process(service.process.pid)
    family = [started, *started.children(recursive=True)]
    try:
        yield Browser(driver)
    finally:
        family += [process for process in _children(started) if process not in family]
        driver.quit()
        for process in psutil.wait_procs(family, END_S)[1]:
            process.kill()
    assert elsewhere(log) == set()


def _children(process: psutil.Process) -> list[psutil.Process]:
    return process.children(recursive=True) if process.is_running() else []


def elsewhere(log: Path) -> set[str]:
    """The addresses beyond loopback to which the browser connected, or sent a datagram, by its own log."""
    known = eventually(lambda: _whole(log), "the browser has written its log")
    kinds = {number: name for name, number in known["constants"]["logEventTypes"].items()}
    assert set(kinds.values()) >= {"TCP_CONNECT_ATTEMPT", "UDP_CONNECT", "UDP_BYTES_SENT"}
    met, routes = set[str](), dict[int, str]()
    for event in known["events"]:
        source, kind, address = event["source"]["id"], kinds[event["type"]], event.get("params", {}).get("address")
        if kind == "TCP_CONNECT_ATTEMPT" and address:
            met.add(address)
        if kind == "UDP_CONNECT" and address:  # asks the kernel for a route, and sends nothing yet
            routes[source] = address
        if kind == "UDP_BYTES_SENT":
            met.add(address or routes.get(source, "unknown:0"))
    return {address for address in met if not _is_loopback(address)}


def _whole(log: Path) -> Any:
    try:
        return json.loads(log.read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return None


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address.rpartition(":")[0].strip("[]")).is_loopback
    except ValueError:
        return False
