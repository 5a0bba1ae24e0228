"""The page at /: it needs nothing from elsewhere, and a browser fills it in."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest


def test_the_page_loads_nothing_and_asks_only_its_own_server(server: Any) -> None:
    reply = httpx.get(server.url + "/")
    assert reply.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in reply.headers["content-security-policy"]
    assert re.findall(r"(?:src|href|url|@import)\s*[=(]", reply.text) == []
    assert "http://" not in reply.text
    assert "https://" not in reply.text
    # texts enter the page as text, never as markup
    assert "innerHTML" not in reply.text


@pytest.mark.slow
def test_a_browser_shows_the_ranking_the_strips_and_what_was_cut(server: Any, tmp_path: Path) -> None:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no Chromium is installed")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
    flags += ["--disable-component-update", "--disable-sync", f"--user-data-dir={tmp_path / 'profile'}"]
    flags += ["--virtual-time-budget=20000", "--dump-dom"]
    done = subprocess.run(
        [chromium, *flags, server.url + "/#example"], capture_output=True, text=True, timeout=120, check=True
    )
    page = done.stdout
    assert page.count("<article>") == 3
    assert page.count('class="strip"') == 3
    assert page.count("<mark>") >= 3
    assert "documents not read to the end" in page
    assert "tokens not read" in page
    assert all(word in page for word in ("FirstP", "MaxP", "Ranking by tiny"))
