"""docs/ becomes a site without a warning, a broken link or anything that is fetched from elsewhere."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parents[3]
# Elements whose address a browser opens by itself; a link (`a`) waits for the reader.
_FETCHED = {
    "audio": "src",
    "embed": "src",
    "iframe": "src",
    "img": "src",
    "link": "href",
    "script": "src",
    "source": "src",
}


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given["id"]} if "id" in given else set()
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag in _FETCHED and _FETCHED[tag] in given:
            self.fetched.append(given[_FETCHED[tag]])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site. With `strict`, a warning of MkDocs ends the build."""
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setenv("NO_MKDOCS_2_WARNING", "1")
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    target = tmp_path_factory.mktemp("site")
    config = load_config(str(ROOT / "mkdocs.yml"), site_dir=str(target))
    assert config["strict"]
    config.plugins.on_startup(command="build", dirty=False)
    build(config)
    monkeypatch.undo()
    return target


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path.read_text()) for path in site.rglob("*.html")}


def test_a_page_fetches_nothing_from_elsewhere(site: Path, pages: dict[Path, Page]) -> None:
    for path, page in pages.items():
        for address in page.fetched:
            assert not urlsplit(address).netloc, f"{path.name} fetches {address}"
    for style in site.rglob("*.css"):
        assert not re.findall(r"url\(\s*['\"]?(?:https?:)?//", style.read_text()), style.name


def test_every_link_and_anchor_of_the_site_leads_somewhere(site: Path, pages: dict[Path, Page]) -> None:
    for path, page in pages.items():
        if path.name == "404.html":  # its links begin at the root of a server
            continue
        for address in {*page.links, *page.fetched}:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            assert target.exists(), f"{path.relative_to(site)} links to {address}"
            if parts.fragment and target in pages and parts.fragment != "__skip":
                assert unquote(parts.fragment) in pages[target].anchors, f"{path.relative_to(site)} links to {address}"


def test_every_page_is_in_the_site(site: Path) -> None:
    left_out = {"table"}
    for page in (ROOT / "docs").rglob("*.md"):
        name = "index" if page.stem == "README" else page.stem
        built = site / page.relative_to(ROOT / "docs").with_name(f"{name}.html")
        assert built.exists() or page.stem in left_out, page
