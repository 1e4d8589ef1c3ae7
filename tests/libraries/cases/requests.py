"""requests and httpx."""

from __future__ import annotations

from tests.libraries.case import Case, Library

LIBRARY = Library(
    "requests and httpx",
    requires=("requests", "httpx"),
    prelude="import httpx, requests, requests.auth, requests.cookies, requests.structures",
    cases=(
        Case(
            "requests.Session",
            "x = requests.Session(); x.headers['A'] = 'b'",
            "print(x.headers['A'], sorted(x.adapters))",
            "x.headers['A'] = 'c'",
            varies="it holds a set of texts, ordered by hashes that differ from process to process",
        ),
        Case(
            "requests.Response",
            "x = requests.Response(); x.status_code = 200; x._content = b'{}'",
            "print(x, x.json(), x.text)",
            "x.status_code = 404",
        ),
        Case(
            "requests.Request",
            "x = requests.Request('GET', 'http://a', params={'q': 1})",
            "print(x.method, x.params)",
            "x.method = 'PUT'",
        ),
        Case(
            "requests.PreparedRequest",
            "x = requests.Request('GET', 'http://a', params={'q': 1}).prepare()",
            "print(x.url, x.headers)",
            "x.headers['q'] = '1'",
            varies="its cookies hold the time",
        ),
        Case(
            "RequestsCookieJar",
            "x = requests.cookies.RequestsCookieJar(); x.set('a', 'b');",
            "print(x['a'], len(x))",
            "done = x.set('c', 'd')",
        ),
        Case(
            "CaseInsensitiveDict",
            "x = requests.structures.CaseInsensitiveDict(A=1)",
            "print(x['a'], dict(x))",
            "x['B'] = 1",
        ),
        Case(
            "HTTPBasicAuth",
            "x = requests.auth.HTTPBasicAuth('a', 'b')",
            "print(x.username, x.password)",
            "x.password = 'q'",
        ),
        Case(
            "requests.HTTPError",
            "x = requests.HTTPError('a', response=requests.Response())",
            "print(x, x.response.status_code)",
            "x.response.status_code = 3",
        ),
        Case("httpx.URL", "x = httpx.URL('http://a/b')", "print(x.host, x)"),
        Case(
            "httpx.Client",
            "x = httpx.Client()",
            "print(x.timeout)",
            "x.timeout = 3",
            recomputed="it holds connections",
        ),
        Case(
            "httpx.Headers",
            "x = httpx.Headers({'a': 'b'})",
            "print(x['A'])",
            "x['a'] = 'c'",
            fills="it keeps its encoding",
        ),
    ),
)
