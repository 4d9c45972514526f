"""Parses saved pages as a browser does."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = {"meta", "br"}
ELEMENTS = {
    *("html", "head", "meta", "title", "style", "body", "header", "section", "article", "footer"),
    *("h1", "h2", "h3", "p", "span", "i", "div", "pre", "ul", "li"),
    *("table", "thead", "tbody", "tr", "th", "td"),
}
ATTRIBUTES = {
    "class",
    "style",
    "title",
    "role",
    "aria-label",
    "lang",
    "charset",
    "name",
    "content",
    "http-equiv",
}


class HtmlPage(HTMLParser):
    """Parses a page as a browser does; fails if elements do not close in order."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, name: str, given: list[tuple[str, str | None]]) -> None:
        self.elements.append((name, {key: value or "" for key, value in given}))
        if name not in VOID:
            self.open.append(name)

    def handle_endtag(self, name: str) -> None:
        assert self.open.pop() == name

    def handle_data(self, data: str) -> None:
        if self.open[-1:] != ["style"]:
            self.words.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"the page must contain no comment: {data}")

    @property
    def text(self) -> str:
        return "".join(self.words)
