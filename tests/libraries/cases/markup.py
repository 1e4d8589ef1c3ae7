"""Beautiful Soup, lxml, Jinja and YAML."""

from __future__ import annotations

from tests.libraries.case import Case, Library

_SOUP = "soup = bs4.BeautifulSoup('<a><b q=\"1\">t</b><b>u</b></a>', 'html.parser')"
_READ = "print(x, x.find('b'), x.get_text())"
_PARSED = "it is parsed anew when it is loaded, into other objects"
_TREE = "its tree lives in C"

LIBRARY = Library(
    "Beautiful Soup, lxml, Jinja, YAML",
    requires=("bs4", "lxml", "jinja2", "yaml"),
    prelude="import bs4, jinja2, lxml.etree, lxml.html, yaml",
    cases=(
        Case(
            "bs4.BeautifulSoup", f"{_SOUP}; x = soup", _READ, "x.b['q'] = '2'", recomputed=_PARSED
        ),
        Case(
            "bs4.BeautifulSoup by lxml",
            "x = bs4.BeautifulSoup('<a><b q=\"1\">t</b></a>', 'lxml')",
            _READ,
            "x.b['q'] = '2'",
            recomputed=_PARSED,
        ),
        Case(
            "bs4.Tag",
            f"{_SOUP}; x = soup.b",
            "print(x, x.text, x.parent.name)",
            "x['q'] = '2'",
            recomputed=_PARSED,
        ),
        Case(
            "bs4.ResultSet",
            f"{_SOUP}; x = soup.find_all('b')",
            "print(x, x[0].text)",
            "x[0]['q'] = '2'",
            recomputed=_PARSED,
        ),
        Case(
            "lxml.etree.Element",
            "x = lxml.etree.fromstring('<a><b/></a>')",
            "print(lxml.etree.tostring(x))",
            "x.set('q', '1')",
            recomputed=_TREE,
        ),
        Case(
            "lxml.etree.ElementTree",
            "x = lxml.etree.ElementTree(lxml.etree.fromstring('<a><b/></a>'))",
            "print(x.getroot().attrib)",
            "x.getroot().set('q', '1')",
            recomputed=_TREE,
        ),
        Case(
            "lxml.html.HtmlElement",
            "x = lxml.html.fromstring('<a><b/></a>')",
            "print(x.tag, x.attrib)",
            "x.set('q', '1')",
            recomputed=_TREE,
        ),
        Case("lxml.etree.XPath", "x = lxml.etree.XPath('//a')", "print(x.path)", recomputed=_TREE),
        Case(
            "YAML document",
            "x = yaml.safe_load('a: [1, 2020-01-01]')",
            "print(x)",
            "x['a'].append(1)",
        ),
        Case(
            "jinja2.Template",
            "x = jinja2.Template('{{ a }}')",
            "print(x.render(a=1))",
            recomputed="it runs in a namespace of its own",
        ),
    ),
)
