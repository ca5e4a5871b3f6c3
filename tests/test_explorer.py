"""The explorer answers what was asked, says how sure it is, listens to nobody else, and works in a real browser."""

from __future__ import annotations

import csv
import http.client
import io
import json
import re
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

import numpy as np
import pandas as pd
import pytest

from browser import Browser
from lbarn import LBARN
from lbarn.baselines import IndependentBits
from lbarn.explorer import ExplorerServer
from lbarn.explorer.conditions import QuestionError, read_conditions
from lbarn.explorer.queries import MAX_ROWS, _by_particles, ask, describe, draw_rows, strangeness
from lbarn.explorer.subject import Subject
from lbarn.explorer.typed import read_row
from networks import quick_ensemble, rows, still_rising

pytestmark = [still_rising, pytest.mark.filterwarnings("ignore:column .* is left out")]

HOSTILE = "<script>alert(1)</script>"
ARABIC, FACE = "\u0627\u0644\u0639\u0645\u0631", "\N{GRINNING FACE}"


def people(n: int, seed: int = 0) -> pd.DataFrame:
    """A table of all kinds of columns, with names and levels that are hard on a page."""
    rng = np.random.default_rng(seed)
    sex = rng.random(n) < 0.4
    age = np.where(rng.random(n) < 0.15, np.nan, np.clip(rng.normal(30 + 12 * sex, 12, n).round(), 1, 80))
    old = np.nan_to_num(age, nan=30) + rng.normal(0, 8, n) > 35
    return pd.DataFrame(
        {
            HOSTILE: np.where(sex, 'fe"male', "<b>male</b>"),
            "age": age,
            "fare": np.where(rng.random(n) < 0.4, 0.0, (rng.lognormal(2, 1.5, n) * (1 + old)).round(2)),
            "weight": rng.normal(70, 10, n),
            f"{FACE} {ARABIC}": rng.choice(["=1+1", "a, b", FACE, ARABIC], n, p=[0.4, 0.3, 0.2, 0.1]),
            "old": old,
            "class": rng.integers(1, 4, n),
            "size": pd.Categorical(rng.choice(["S", "M", "L"], n), ["S", "M", "L"], ordered=True),
            "born": pd.Timestamp("1990-01-01") + pd.to_timedelta(rng.integers(0, 9000, n), "D"),
            "id": [f"row {k}" for k in range(n)],
        }
    )


@pytest.fixture(scope="module")
def model() -> LBARN:
    return LBARN(max_iter=20, random_state=0, n_jobs=1, max_cells=32).fit(people(500))


@pytest.fixture(scope="module")
def subject(model: LBARN) -> Subject:
    subject = Subject(model, "people.lbarn", n_rows=20_000, seed=1)
    subject.grow()
    return subject


def number(subject: Subject, name: str) -> int:
    return subject.names.index(name)


def asked(subject: Subject, *conditions: dict[str, Any], refined: bool = True) -> dict[str, Any]:
    return ask(subject, read_conditions(list(conditions), subject.charts, subject.names), refined=refined)


def as_condition(column: int, bar: dict[str, Any]) -> dict[str, Any]:
    if bar.get("empty"):
        return {"column": column, "levels": [], "empty": True}
    if "level" in bar:
        return {"column": column, "levels": [bar["level"]]}
    return {"column": column, "from": bar["from"], "to": bar["to"]}


# ---------------------------------------------------------------------- answers


def test_bars_share_out_all_rows(subject: Subject) -> None:
    found = asked(subject)
    assert found["probability"] == 1.0
    for column in found["columns"]:
        assert sum(column["p"]) == pytest.approx(1.0, abs=0.002)  # four digits are sent


def test_a_condition_is_as_likely_as_its_bar_and_rows_drawn_under_it_meet_it(subject: Subject) -> None:
    base = asked(subject)
    rng = np.random.default_rng(0)
    for j, column in enumerate(describe(subject)["columns"]):
        for k in rng.permutation(len(column["bars"]))[:3]:
            share = base["columns"][j]["p"][k]
            if share < 0.001:
                continue
            conditions = [as_condition(j, column["bars"][k])]
            found = asked(subject, *conditions)
            assert found["probability"] == pytest.approx(
                share, abs=5 * np.hypot(base["columns"][j]["error"][k], found["error"])
            )
            inside = np.array(found["columns"][j]["p"])
            assert inside[k] == pytest.approx(1.0, abs=1e-3)
            assert found["columns"][j]["error"][k] == 0.0
            read = read_conditions(conditions, subject.charts, subject.names)
            values = draw_rows(subject, read, 20).column(j).to_pylist()
            codes = subject.charts[j].code
            if column["bars"][k].get("empty"):
                assert values == [None] * 20
            elif "level" in column["bars"][k]:
                assert {str(int(v) if isinstance(v, bool) else v) for v in values} == {column["bars"][k]["level"]}
            else:
                low, high = read[j].low, read[j].high  # type: ignore[attr-defined]
                numbers = [pd.Timestamp(v).value if column["kind"] == "datetime" else v for v in values]
                scale = {"ns": 1, "us": 1000, "ms": 10**6, "s": 10**9}[getattr(codes.plain.type, "unit", "ns")]
                assert all(low * scale <= v <= high * scale for v in numbers)


def test_counting_and_particles_agree_within_their_errors(subject: Subject) -> None:
    conditions = [
        {"column": number(subject, "age"), "from": "40", "to": None, "empty": False},
        {"column": number(subject, "old"), "levels": ["1"]},
        {"column": number(subject, "size"), "levels": ["S", "M"]},
    ]
    read = read_conditions(conditions, subject.charts, subject.names)
    shares = {j: own.shares(subject.charts[j]) for j, own in read.items()}
    counted = ask(subject, read, refined=True)
    assert counted["method"] == "counted"
    by_particles = _by_particles(subject, shares, 500)
    error = np.hypot(counted["error"], by_particles.error)
    assert counted["probability"] == pytest.approx(by_particles.probability, abs=4 * error)
    fare = number(subject, "fare")
    distance = np.array(counted["columns"][fare]["p"]) - by_particles.cells[fare] @ subject.charts[fare].weights
    assert np.abs(distance / np.array(counted["columns"][fare]["error"])).max() < 5


def test_the_stated_error_is_that_of_repeated_questions(model: LBARN) -> None:
    """Both ways of answering: the spread over different random numbers is what was stated."""
    for n_rows in (2000, 20):  # with so few drawn rows, particles answer
        spread, stated = [], []
        for seed in range(24):
            subject = Subject(model, "", n_rows=n_rows, seed=seed)
            found = asked(subject, {"column": number(subject, "old"), "levels": ["1"]}, refined=False)
            assert found["method"] == ("counted" if n_rows == 2000 else "particles")
            columns = [found["columns"][number(subject, name)] for name in ("class", "size", HOSTILE)]
            spread.append([found["probability"], *(p for column in columns for p in column["p"])])
            stated.append([found["error"], *(error for column in columns for error in column["error"])])
        ratio = np.std(spread, axis=0) / np.sqrt(np.square(stated).mean(axis=0))
        assert (ratio > 0.25).all()
        assert (ratio < 1.8).all()


def test_a_rare_condition_is_answered_by_particles(subject: Subject) -> None:
    born = number(subject, "born")
    conditions = [
        {"column": number(subject, "age"), "from": "70", "to": "80"},
        {"column": number(subject, "class"), "from": "2", "to": "2"},
        {"column": born, "from": "1990-01-01", "to": "1991-01-01"},
        {"column": number(subject, "size"), "levels": ["L"]},
    ]
    first, better = (asked(subject, *conditions, refined=refined) for refined in (False, True))
    assert {first["method"], better["method"]} == {"particles"}
    assert 0 < better["probability"] < 0.001
    assert better["effective"] > first["effective"]
    drawn = draw_rows(subject, read_conditions(conditions, subject.charts, subject.names), 7)
    assert drawn.num_rows == 7
    assert all(70 <= age <= 80 for age in drawn["age"].to_pylist())
    assert all(pd.Timestamp(day) < pd.Timestamp("1991-01-02") for day in drawn["born"].to_pylist())


@pytest.mark.parametrize("kind", ["bits", "ensemble", "independent"])
def test_tables_of_bits_and_other_models(kind: str) -> None:
    X = rows(300, 6)
    fitted: Any = {
        "bits": LBARN(max_iter=20, random_state=0),
        "ensemble": quick_ensemble(),
        "independent": IndependentBits(),
    }
    subject = Subject(fitted[kind].fit(X), kind, n_rows=3000)
    subject.grow()
    found = asked(subject, {"column": 0, "levels": ["1"]}, {"column": 5, "levels": ["0"]})
    assert found["columns"][0]["p"] == [0.0, 1.0]
    assert describe(subject)["links"] != [] or kind == "independent"
    assert strangeness(subject, "0,1,0,1,1,0")["columns"][0]["surprise"] > 0
    assert set(
        draw_rows(subject, read_conditions([{"column": 2, "levels": ["1"]}], subject.charts, subject.names), 5)[
            "2"
        ].to_pylist()
    ) == {1}


# ---------------------------------------------------------------------- bars


def test_numbers_have_round_bars_and_dates_those_of_the_calendar(subject: Subject) -> None:
    columns = {column["name"]: column for column in describe(subject)["columns"]}
    ages = [bar["label"] for bar in columns["age"]["bars"]]
    assert "20 to 24" in ages
    assert ages[-1] == "empty"
    assert columns["fare"]["bars"][0]["label"] == "0"  # two fifths of the rows
    starts = [bar["from"] for bar in columns["born"]["bars"][1:]]
    assert all(re.match(r"\d{4}-0?1-01", start) for start in starts)
    assert [bar["label"] for bar in columns["size"]["bars"]] == ["S", "M", "L"]
    assert all(5 <= len(columns[name]["bars"]) <= 42 for name in ("age", "fare", "weight", "born"))


def test_many_levels_share_a_last_bar() -> None:
    level = np.array([f"level {k}" for k in range(300)])[np.random.default_rng(0).integers(0, 300, 3000)]
    fitted = LBARN(max_iter=5, random_state=0, columns={"a": "categorical"}).fit(
        pd.DataFrame({"a": level, "b": level == "level 1"})
    )
    subject = Subject(fitted, "", n_rows=5000)
    bars = describe(subject)["columns"][0]["bars"]
    assert len(bars) == 201
    assert bars[-1]["rest"] is True
    hidden = sorted({f"level {k}" for k in range(300)} - {bar.get("level") for bar in bars})[0]
    found = asked(subject, {"column": 0, "levels": [hidden, bars[0]["level"]]})
    assert found["columns"][0]["p"][-1] + found["columns"][0]["p"][0] == pytest.approx(1.0, abs=1e-3)


# ---------------------------------------------------------------------- strange rows


def test_a_value_is_judged_by_the_rest_of_the_row(subject: Subject, model: LBARN) -> None:
    row = people(1, seed=5)
    text = ",".join(f'"{v!s}"'.replace('"fe"male"', '"fe""male"') for v in row.iloc[0])
    text = text.replace('"nan"', "").replace(" 00:00:00", "")
    found = strangeness(subject, text)
    assert found["left_out"] == ["id"]
    assert found["unknown"] == []
    assert found["log_likelihood"] == pytest.approx(model.score_samples(row)[0], abs=1e-6)
    reasons = {one["name"]: one for one in found["columns"]}
    for name in ("class", "size", "fare", "weight"):
        expected = -model.conditional(row, name).log_prob(row[name].tolist())[0]
        assert reasons[name]["surprise"] == pytest.approx(expected, abs=2e-3)
    assert [one["excess"] for one in found["columns"]] == sorted(
        (one["excess"] for one in found["columns"]), reverse=True
    )


def test_a_strange_value_comes_first_and_is_rare(subject: Subject) -> None:
    found = strangeness(subject, "age=79\nold=False\nfare=20")
    assert found["columns"][0]["name"] in ("age", "old")
    assert found["columns"][0]["as_strange"] < 0.05
    assert "share_below" not in found
    assert strangeness(subject, "class=7, size=XL")["columns"][0]["unseen"] is True


NAMES = ["a", "b=c", "d, e"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1,2,3", {"a": "1", "b=c": "2", "d, e": "3"}),
        ("1;2;3\n", {"a": "1", "b=c": "2", "d, e": "3"}),
        ("1\t\t3", {"a": "1", "b=c": "", "d, e": "3"}),
        ('"x, ""y""",2,3', {"a": 'x, "y"', "b=c": "2", "d, e": "3"}),
        ("a=1", {"a": "1"}),
        ("b=c = 2; a=1", {"b=c": "2", "a": "1"}),
        ("a: 1\nd, e: x=2", {"a": "1", "d, e": "x=2"}),
        ('"d, e",a\n3,1\r\n', {"d, e": "3", "a": "1"}),
    ],
)
def test_rows_are_read_as_people_write_them(text: str, expected: dict[str, str]) -> None:
    assert read_row(text, NAMES, {}) == expected


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (" \n", "type or paste a row"),
        ("1,2", "2 values for 3 columns"),
        ("1,2,3\n4,5,6", "2 lines"),
        ("a\n1\n2", "2 rows below the header"),
        ("a=1, q=2", "no column 'q'"),
        ("a=1, a=2", "given twice"),
    ],
)
def test_what_cannot_be_a_row_is_refused(text: str, why: str) -> None:
    with pytest.raises(QuestionError, match=why):
        read_row(text, NAMES, {})


# ---------------------------------------------------------------------- the server


class Reply(NamedTuple):
    status: int
    headers: http.client.HTTPMessage
    content: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.content)


@pytest.fixture(scope="module")
def server(model: LBARN) -> Iterator[ExplorerServer]:
    with ExplorerServer(model, f"{HOSTILE}.lbarn", n_rows=8000, random_state=0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def request(
    server: ExplorerServer,
    place: str,
    content: Any = None,
    *,
    token: str | None = None,
    raw: bytes | None = None,
    **headers: str,
) -> Reply:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    path = f"/{server.token if token is None else token}/{place}"
    body = raw if raw is not None else None if content is None else json.dumps(content).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    if body is not None:
        named.setdefault("Content-Type", "application/json")
    connection.request("GET" if body is None else "POST", path, body, named)
    reply = connection.getresponse()
    found = Reply(reply.status, reply.headers, reply.read())
    connection.close()
    return found


def test_the_page_and_every_answer_come_with_strict_headers(server: ExplorerServer) -> None:
    replies = [request(server, place) for place in ("", "page.js", "page.css", "api/model")]
    replies.append(request(server, "api/ask", {"conditions": []}))
    for reply in replies:
        assert reply.status == 200
        assert "default-src 'none'" in reply.headers["Content-Security-Policy"]
        assert "unsafe" not in reply.headers["Content-Security-Policy"]
        assert reply.headers["X-Content-Type-Options"] == "nosniff"
        assert reply.headers["Referrer-Policy"] == "no-referrer"
        assert reply.headers["Cache-Control"] == "no-store"
        assert reply.headers["Access-Control-Allow-Origin"] is None
    assert b"http" not in replies[0].content  # nothing is fetched from elsewhere
    assert b"innerHTML" not in replies[1].content


@pytest.mark.parametrize("place", ["", "page.js", "api/model", "api/ask", "rows.csv?n=1"])
@pytest.mark.parametrize("token", ["", "x", "wrong-token-of-the-same-length--"])
def test_a_wrong_token_is_refused(place: str, token: str, server: ExplorerServer) -> None:
    content = {"conditions": []} if place == "api/ask" else None
    reply = request(server, place, content, token=token)
    assert reply.status == 403
    assert server.token.encode() not in reply.content


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "localhost:1", "127.0.0.1:PORT.evil.example"])
def test_another_host_is_refused(host: str, server: ExplorerServer) -> None:
    assert request(server, "api/model", Host=host.replace("PORT", str(server.server_port))).status == 403


def test_pages_of_others_may_not_ask(server: ExplorerServer) -> None:
    assert request(server, "api/ask", {"conditions": []}, Origin="http://evil.example").status == 403
    assert request(server, "api/ask", {"conditions": []}, Origin=f"http://127.0.0.1:{server.server_port}").status == 200
    assert request(server, "api/ask", {"conditions": []}, Content_Type="text/plain").status == 415


@pytest.mark.parametrize(
    "place", ["../server.py", "server.py", "page.html", "%2e%2e/server.py", "/etc/passwd", "api/nothing"]
)
def test_nothing_else_is_served(place: str, server: ExplorerServer) -> None:
    assert request(server, place).status == 404
    assert request(server, place, {}).status == 404


def test_large_and_broken_questions_are_refused(server: ExplorerServer) -> None:
    assert request(server, "api/strange", {"row": "x" * 300_000}).status == 413
    for raw in (b"{", b"[" * 10_000, b"[]", b"\xff", b"null"):
        assert request(server, "api/ask", raw=raw).status == 400


@pytest.mark.parametrize(
    ("condition", "why"),
    [
        ({"column": 99, "levels": ["x"]}, "no column 99"),
        ({"column": True, "levels": ["x"]}, "no column True"),
        ({"column": 0, "levels": ["?"]}, "no level '?'"),
        ({"column": 0, "levels": []}, "no level of column .* is chosen"),
        ({"column": 0, "levels": [], "empty": True}, "never empty"),
        ({"column": 0, "from": "1", "to": "2"}, "has levels"),
        ({"column": 1, "levels": ["3"]}, "has a range"),
        ({"column": 1, "from": "abc"}, "'abc' is not a number, which column 'age' holds"),
        ({"column": 1, "from": "40", "to": "20"}, "ends before it begins"),
        ({"column": 1, "from": "500", "to": "600"}, "no row of the model"),
        ({"column": 8, "from": "yesterday"}, "'yesterday' is not a date"),
        ("x", "must be an object"),
    ],
)
def test_a_bad_condition_is_told(condition: Any, why: str, server: ExplorerServer) -> None:
    for reply in (
        request(server, "api/ask", {"conditions": [condition]}),
        request(server, "api/rows", {"conditions": [condition], "n": 1}),
        request(server, f"rows.csv?n=1&conditions={quote(json.dumps([condition]))}"),
    ):
        assert reply.status == 400
        assert re.search(why, reply.json["error"])
    two = [{"column": 5, "levels": ["1"]}] * 2
    assert "two conditions" in request(server, "api/ask", {"conditions": two}).json["error"]


@pytest.mark.parametrize("n", [0, -1, MAX_ROWS + 1, 10**12, "5", 1.5, None, True])
def test_no_more_rows_than_allowed(n: Any, server: ExplorerServer) -> None:
    assert request(server, "api/rows", {"conditions": [], "n": n}).status == 400
    if n != "5":
        assert request(server, f"rows.csv?n={n}").status == 400


def test_rows_come_as_csv_with_values_as_they_are(server: ExplorerServer) -> None:
    conditions = quote(json.dumps([{"column": 0, "levels": ["<b>male</b>"]}]))
    reply = request(server, f"rows.csv?n=40&conditions={conditions}")
    assert reply.headers["Content-Type"] == "text/csv; charset=utf-8"
    assert reply.headers["Content-Disposition"].startswith("attachment")
    head, *lines = csv.reader(io.StringIO(reply.content.decode()))
    assert head == server.subject.names
    assert len(lines) == 40
    assert {line[0] for line in lines} == {"<b>male</b>"}
    assert {line[4] for line in lines} <= {"=1+1", "a, b", FACE, ARABIC}


def test_a_typed_row_that_cannot_be_read_is_told(server: ExplorerServer) -> None:
    reply = request(server, "api/strange", {"row": "age=abc"})
    assert reply.status == 400
    assert "'age'" in reply.json["error"]
    assert "'abc'" in reply.json["error"]
    assert "counted from 0" not in reply.json["error"]
    assert request(server, "api/strange", {"row": 5}).status == 400


# ---------------------------------------------------------------------- in a browser


@pytest.fixture
def page(browser: Browser, server: ExplorerServer) -> Iterator[Browser]:
    """The page, opened; in the end nothing was complained of, or asked of anybody else."""
    browser.open("about:blank", width=1300)
    browser.complaints.clear()
    browser.requests.clear()
    browser.open(server.url, width=1300)
    settled(browser)
    yield browser
    assert browser.complaints == []
    own = urlsplit(server.url).netloc
    assert [url for url in browser.requests if urlsplit(url).netloc != own and not url.startswith("data:")] == []


def settled(browser: Browser) -> None:
    browser.until("document.querySelector('.card') && !document.body.classList.contains('asking')")


def text(browser: Browser, selector: str) -> str:
    return str(browser.evaluate(f"document.querySelector({json.dumps(selector)}).innerText"))


def chips(browser: Browser) -> list[str]:
    return list(browser.evaluate("[...document.querySelectorAll('#chips button')].map((chip) => chip.innerText)"))


def test_a_person_clicks_through_the_whole_story(page: Browser) -> None:
    assert page.evaluate("document.querySelectorAll('.card').length") == 9
    assert text(page, "#share") == "All rows"
    assert text(page, "#name") == f"{HOSTILE}.lbarn"  # as text
    assert text(page, "#column-0 h3") == HOSTILE
    assert "id" in page.evaluate("document.querySelector('#left-out').textContent")

    # a click fixes a level, and the others change
    page.click("#column-0 .levels li:nth-child(2) button")
    settled(page)
    assert chips(page) == [f'{HOSTILE}: fe"male']
    assert re.fullmatch(r"[34]\d(\.\d)?%", text(page, "#share"))
    assert "\N{PLUS-MINUS SIGN}" in text(page, "#margin")
    assert "changed" in text(page, "#column-1 .change")

    # a drag restricts a number
    page.drag("#bar-1-3", "#bar-1-6")
    settled(page)
    assert len(chips(page)) == 2
    assert chips(page)[1].startswith("age: ")
    chosen = page.evaluate("[...document.querySelectorAll('#column-1 [aria-selected=true]')].map((bar) => bar.id)")
    assert chosen == [f"bar-1-{k}" for k in range(3, 7)]
    assert page.evaluate("document.querySelector('#bar-2-0 .ghost').style.height") != page.evaluate(
        "document.querySelector('#bar-2-0 .fill').style.height"
    )

    # the most changed columns come first
    page.evaluate(
        "(() => { const sort = document.querySelector('#sort'); sort.value = 'change'; sort.dispatchEvent(new Event('change')); })()"
    )
    assert page.evaluate("[...document.querySelectorAll('.card')].slice(0, 2).map((card) => card.id)") == [
        "column-0",
        "column-1",
    ]

    # rows under these conditions, and one of them judged
    page.click("#draw button")
    page.until("document.querySelectorAll('#drawn tbody tr').length === 10")
    assert set(
        page.evaluate("[...document.querySelectorAll('#drawn tbody td:first-child')].map((cell) => cell.innerText)")
    ) == {'fe"male'}
    assert "conditions=" in page.evaluate("document.querySelector('#download').href")
    page.click("#drawn tbody tr:nth-child(3) button")
    page.until("document.querySelectorAll('.reasons li').length === 9")
    assert "rows are less likely" in text(page, "#verdict")

    # from the graph, and from a reason, one goes to a column
    page.click("#circle a")
    page.until("document.activeElement.classList.contains('card')")
    page.click(".reasons .go")
    page.until("document.activeElement.classList.contains('card')")

    # a condition is taken away by its chip, and all by one button
    page.click("#chips li button")
    settled(page)
    assert len(chips(page)) == 1
    page.click("#reset")
    settled(page)
    assert chips(page) == []
    assert text(page, "#share") == "All rows"


def test_everything_works_with_the_keyboard(page: Browser) -> None:
    page.evaluate("document.querySelector('#column-1 .hist').focus()")
    for _ in range(4):
        page.press("ArrowRight")
    page.press("Enter")
    settled(page)
    (single,) = chips(page)
    page.press("ArrowRight", shift=True)
    page.press("ArrowRight", shift=True)
    settled(page)
    (wider,) = chips(page)
    assert single.partition(" to ")[0] == wider.partition(" to ")[0]
    assert (
        len(page.evaluate("[...document.querySelectorAll('#column-1 [aria-selected=true]')].map((bar) => bar.id)")) == 3
    )
    page.press("Escape")
    settled(page)
    assert chips(page) == []

    page.evaluate("document.querySelector('#column-5 .level').focus()")
    page.press("Enter")
    settled(page)
    assert chips(page) == ["old: False"]
    assert page.evaluate("document.querySelector('#column-5 .level').getAttribute('aria-pressed')") == "true"

    page.evaluate(
        "[...document.querySelectorAll('#column-2 .foot button')].find((own) => own.innerText.startsWith('Range')).click()"
    )
    page.type("5")
    page.press("Enter")
    settled(page)
    assert chips(page) == ["old: False", "fare: 5 or more"]
    page.evaluate("document.querySelector('#column-2 .range input').select()")
    page.type("five")
    page.press("Enter")
    page.until("document.querySelector('#column-2 .wrong').innerText !== ''")
    assert "'five' is not a number" in text(page, "#column-2 .wrong")
    page.requests.clear()
    page.complaints.clear()  # the browser tells of the refusal


def test_a_pasted_row_is_judged_and_a_bad_one_is_told(page: Browser) -> None:
    page.evaluate("document.querySelector('#row').focus()")
    page.type("age=79, old=False, fare=<img src=x>")
    page.click("#ask-row button")
    page.until("document.querySelector('#verdict .wrong')")
    assert "<img src=x>" in text(page, "#verdict")
    assert page.evaluate("document.images.length") == 0
    page.complaints.clear()  # the browser tells of the refusal
    page.evaluate("document.querySelector('#row').value = 'age=79, old=False'")
    page.click("#ask-row button")
    page.until("document.querySelector('.reasons')")
    assert page.evaluate("document.querySelector('.reasons li').className") == "odd"
    assert "Not known:" in text(page, "#verdict")


def test_a_screen_reader_is_told_what_charts_show(page: Browser) -> None:
    unnamed = """[...document.querySelectorAll('button, a, input, select, textarea, [role=option], [role=listbox]')].filter((own) =>
        !(own.getAttribute('aria-label') || own.innerText || own.textContent || own.labels?.length)).map((own) => own.outerHTML)"""
    assert page.evaluate(unnamed) == []
    label = page.evaluate("document.querySelector('#bar-1-2').getAttribute('aria-label')")
    assert re.fullmatch(r"\d+ to \d+: [\d.]+% of rows", label)
    page.click("#column-5 .level")
    settled(page)
    assert re.search(
        "% of rows meet the conditions, give or take",
        text(page, "#said") or page.evaluate("document.querySelector('#said').textContent"),
    )
    label = page.evaluate("document.querySelector('#bar-1-2').getAttribute('aria-label')")
    assert re.fullmatch(r"\d+ to \d+: [\d.]+%, give or take [\d.]+%; [\d.]+% of all rows", label)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [360, 1300])
def test_it_fits_any_screen(width: int, dark: bool, page: Browser, server: ExplorerServer) -> None:
    page.open(server.url, width=width, dark=dark)
    settled(page)
    page.click("#column-5 .level")
    settled(page)
    page.click("#draw button")
    page.until("!document.querySelector('#drawn').hidden")
    assert page.evaluate("document.documentElement.scrollWidth") == width
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (np.mean([int(part) for part in re.findall(r"\d+", background)]) < 128) == dark


def test_conditions_survive_a_reload(page: Browser, server: ExplorerServer) -> None:
    page.click("#column-5 .level")
    settled(page)
    address = page.evaluate("location.href")
    page.open("about:blank", width=1300)
    page.open(address, width=1300)
    settled(page)
    assert chips(page) == ["old: False"]
