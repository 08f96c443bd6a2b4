"""Read a page as a browser would."""

from html.parser import HTMLParser

EMPTY_TAGS = {"meta", "img", "br", "link", "input", "hr"}


class Page(HTMLParser):
    """Checks that what is opened is closed, and collects what there is."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.attributes = [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in EMPTY_TAGS:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def values(self, name):
        """All values of an attribute."""
        return [value for key, value in self.attributes if key == name]
