"""The page in a real browser: it asks, draws, loads, and speaks to nobody else."""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import socket
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service as Driver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.expected_conditions import alert_is_present
from selenium.webdriver.support.ui import Select, WebDriverWait

from index.naming import check_name
from service.problems import TABLE
from tests.programs import program
from tests.service.running import PATIENCE, ROOT, Service

ARGUMENTS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--lang=en",
    "--window-size=1100,1000",
]
UNDERSTOOD = "and, or, not, in (…) and is missing are understood"
HEADLINE = "#blend .headline"
# "Encoding 1,664 / 40,000 · 832/s · 1 min left", its spaces perhaps ones that do not break
PACE = re.compile(r"Encoding [\d,]+ / 40,000 · [\d,.]+/s · \d+\s(?:min|sec) left")


@pytest.fixture(scope="module")
def bundled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service on its bundled datasets, with the real encoder."""
    with Service(tmp_path_factory.mktemp("page") / "store") as service:
        service.until("/readyz")
        yield service


@pytest.fixture(scope="module")
def started_browser() -> Iterator[Chrome]:
    options = Options()
    options.binary_location = program("chromium")
    for argument in ARGUMENTS:
        options.add_argument(argument)
    options.add_experimental_option("prefs", {"intl.accept_languages": "en"})
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    utf_8 = {**os.environ, "LC_ALL": "C.UTF-8"}  # for names of files with accents, wherever it runs
    driver = Driver(program("chromedriver", "chromium-driver"), env=utf_8)
    browser = Chrome(options=options, service=driver)
    yield browser
    browser.quit()


@pytest.fixture
def browser(started_browser: Chrome, bundled: Service) -> Iterator[Chrome]:
    """A browser on the page, which has answered its first example."""
    browser = started_browser
    browser.get_log("performance")
    browser.get_log("browser")
    browser.get(bundled.origin + "/?lang=en")
    until(browser, lambda: weights(browser))
    yield browser

    requests = requested(browser)
    assert requests and {urlsplit(url).netloc for url in requests} == {
        urlsplit(bundled.origin).netloc
    }
    said = [line for line in browser.get_log("browser") if "422" not in line["message"]]
    assert said == [], "the console is to stay empty: no error, no breach of the policy"


def requested(browser: Chrome) -> list[str]:
    events = [json.loads(line["message"])["message"] for line in browser.get_log("performance")]
    sent = [each for each in events if each["method"] == "Network.requestWillBeSent"]
    urls = [each["params"]["request"]["url"] for each in sent]
    return [url for url in urls if not url.startswith(("data:", "chrome:"))]


def until(browser: Chrome, condition: Callable[[], object]) -> None:
    WebDriverWait(browser, PATIENCE, 0.05).until(lambda _: condition())


def weights(browser: Chrome) -> dict[str, float]:
    script = (
        "return [...document.querySelectorAll('#matches .match')]"
        ".map((row) => [row.dataset.key, Number(row.dataset.weight)])"
    )
    return dict(browser.execute_script(script))


def dataset_of(browser: Chrome) -> str:
    """The dataset that is asked; at once, for its list may be made anew meanwhile."""
    script = "return document.getElementById('dataset').selectedOptions[0]?.text"
    return str(browser.execute_script(script))


def ask(browser: Chrome, question: str) -> dict[str, float]:
    """Ask as a person does, and return what the bars then show."""
    field = browser.find_element(By.ID, "q")
    field.clear()
    field.send_keys(question, Keys.ENTER)
    until(browser, lambda: f"“{question}”" in text(browser, "#reason"))
    return weights(browser)


def chosen(browser: Chrome, table: Path) -> WebElement:
    """Choose a file in the form for a table, and give the button that loads it."""
    browser.find_element(By.ID, "own").click()
    browser.find_element(By.ID, "file").send_keys(str(table))
    return browser.find_element(By.CSS_SELECTOR, "#upload .main")


@contextmanager
def opened_with(browser: Chrome, source: str, address: str) -> Iterator[None]:
    """Open a page in which a script has run before its own."""
    added = browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": source})
    try:
        browser.get(address)
        yield
    finally:
        browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", added)


def hold(browser: Chrome, which: str) -> None:
    """Keep back the requests of which that JavaScript is true, until the page's ``release()``."""
    browser.execute_script(
        "const answered = window.fetch;"
        "window.fetch = async (path, options) => {"
        f"  if ({which}) await new Promise((go) => {{ window.release = go; }});"
        "  return answered(path, options);"
        "};"
    )


def held(browser: Chrome) -> bool:
    return bool(browser.execute_script("return Boolean(window.release)"))


def focused(browser: Chrome) -> str | None:
    return browser.switch_to.active_element.get_attribute("id")


def text(browser: Chrome, selector: str) -> str:
    found: str = browser.find_element(By.CSS_SELECTOR, selector).text
    return found


def test_pais_puts_three_bars_above_perro(browser: Chrome) -> None:
    shown = ask(browser, "país")

    assert list(shown)[3] == "perro"
    assert set(list(shown)[:3]) == {"méxico", "alemania", "inglaterra"}
    bars = [
        bar.size["width"] for bar in browser.find_elements(By.CSS_SELECTOR, "#matches .match .fill")
    ]
    assert bars == sorted(bars, reverse=True)
    assert bars[2] > 2 * bars[3] > 0
    track = browser.find_element(By.CSS_SELECTOR, "#matches .track").size["width"]
    assert bars[0] / track == pytest.approx(shown[next(iter(shown))], abs=0.02)
    assert text(browser, "#exact") == "nothing"
    assert 7.7 <= float(text(browser, "#blend .headline").split()[0]) <= 8.7


def test_a_key_that_is_there_shows_both_answers(browser: Chrome) -> None:
    shown = ask(browser, "méxico")

    assert next(iter(shown)) == "méxico"
    assert text(browser, "#exact") == "7"


def test_a_blank_behind_a_key_does_not_hide_it(browser: Chrome) -> None:
    field = browser.find_element(By.ID, "q")
    field.clear()
    field.send_keys("méxico ", Keys.ENTER)

    until(browser, lambda: "méxico" in text(browser, "#reason"))
    assert text(browser, "#exact") == "7"


def by_hand(browser: Chrome, weights: dict[str, str]) -> None:
    for row in browser.find_elements(By.CSS_SELECTOR, "#hand-weights label"):
        key, field = row.text, row.find_element(By.TAG_NAME, "input")
        if key in weights:
            field.send_keys(Keys.CONTROL, "a", Keys.BACKSPACE)
            field.send_keys(weights[key])


def test_weights_by_hand_blend_beside_those_of_attention(browser: Chrome) -> None:
    ask(browser, "país")
    browser.find_element(By.CSS_SELECTOR, "#hand summary").click()
    until(browser, lambda: text(browser, "#hand-blend") == "8.54")  # as attention gives
    by_hand(browser, {"méxico": "30", "alemania": "30", "inglaterra": "30", "perro": "10"})

    until(browser, lambda: text(browser, "#hand-blend") == "8")
    by_hand(browser, {"méxico": "1", "alemania": "", "inglaterra": "", "perro": "0"})
    until(browser, lambda: text(browser, "#hand-blend") == "7")
    by_hand(browser, {"méxico": "", "alemania": "", "inglaterra": "0", "perro": "0"})
    said = "Write at least one weight above zero."
    until(browser, lambda: text(browser, "#hand-blend") == said)
    by_hand(browser, {"méxico": "1", "alemania": "1", "inglaterra": "", "perro": ""})
    until(browser, lambda: text(browser, "#hand-blend") == "8.5")
    by_hand(browser, {"méxico": "20 %", "alemania": "20.0%", "inglaterra": ",4e2", "perro": "x"})
    weird = "Cannot be read as a weight: {}. Write numbers of 0 or more, such as 12.5 or 12.5%."
    until(browser, lambda: text(browser, "#hand-blend") == weird.format("x"))
    marked = browser.find_elements(By.CSS_SELECTOR, "#hand-weights [aria-invalid=true]")
    assert [each.get_property("value") for each in marked] == ["x"]
    assert marked[0].get_attribute("aria-describedby") == "hand-blend"
    by_hand(browser, {"alemania": "-1", "perro": "1e400"})
    until(browser, lambda: "-1" in text(browser, "#hand-blend"))
    until(browser, lambda: "1e400" in text(browser, "#hand-blend"))
    by_hand(browser, {"alemania": "20.0%", "inglaterra": "1,000", "perro": "1.000"})
    until(browser, lambda: text(browser, "#hand-blend") == weird.format("1,000"))
    by_hand(browser, {"méxico": "20 %", "inglaterra": "40.000", "perro": "0"})
    until(browser, lambda: text(browser, "#hand-blend") == "8.25")
    by_hand(browser, {"inglaterra": "40"})
    until(browser, lambda: text(browser, "#hand-blend") == "8.25")
    browser.find_element(By.ID, "language").click()
    assert text(browser, "#hand-blend") == "8,25", "what was typed stays in another language"
    by_hand(browser, {"inglaterra": "1.000", "perro": "1,000 %"})
    until(
        browser,
        lambda: text(browser, "#hand-blend").startswith("No se puede leer como peso: 1.000."),
    )


def test_a_weight_that_was_typed_stays_with_its_key_and_the_others_are_attention_s(
    browser: Chrome,
) -> None:
    def fields() -> dict[str, str]:
        script = (
            "return [...document.querySelectorAll('#hand-weights label')]"
            ".map((row) => [row.textContent, row.lastChild.value])"
        )
        return dict(browser.execute_script(script))

    def blended(shown: dict[str, float]) -> str:
        values = {"méxico": 7, "alemania": 10, "inglaterra": 8, "perro": 5}
        taken = {**shown, "perro": 0.5}
        total = sum(taken[key] * values[key] for key in values) / sum(taken.values())
        return str(browser.execute_script("return rounded(arguments[0], 3)", total))

    shown = ask(browser, "país")
    browser.find_element(By.CSS_SELECTOR, "#hand summary").click()
    until(browser, lambda: text(browser, "#hand-blend") == text(browser, HEADLINE).split()[0])
    by_hand(browser, {"perro": "50"})
    until(browser, lambda: text(browser, "#hand-blend") == blended(shown))

    shown = ask(browser, "mascota")
    percent = "return number(100 * arguments[0], 2)"
    others = {key: browser.execute_script(percent, weight) for key, weight in shown.items()}
    assert list(fields()) == list(shown) and next(iter(shown)) == "perro", "in another order"
    assert fields() == {**others, "perro": "50"}
    until(browser, lambda: text(browser, "#hand-blend") == blended(shown))

    by_hand(browser, {"méxico": ""})
    until(browser, lambda: text(browser, "#hand-blend") == blended({**shown, "méxico": 0}))
    ask(browser, "animal")
    assert fields()["méxico"] != "" and fields()["perro"] == "50", "what is emptied is attention's"

    Select(browser.find_element(By.ID, "dataset")).select_by_value("traduccion")
    until(browser, lambda: "PERRO" in fields())
    assert "50" not in fields().values(), "the keys of another dataset are others"
    browser.back()
    until(browser, lambda: fields().get("perro") == "50")


def test_weights_by_hand_give_nothing_to_another_question(browser: Chrome) -> None:
    hold(browser, "options?.method === 'POST'")
    browser.find_element(By.CSS_SELECTOR, "#hand summary").click()
    until(browser, lambda: held(browser))
    browser.find_element(By.CSS_SELECTOR, "#hand summary").click()
    ask(browser, "mascota")
    browser.execute_script("release(); return new Promise((done) => setTimeout(done, 300))")

    blend = browser.find_element(By.ID, "hand-blend")
    assert blend.get_property("textContent") == ""


def test_a_colour_is_drawn_as_one(browser: Chrome) -> None:
    Select(browser.find_element(By.ID, "dataset")).select_by_value("colores")
    until(browser, lambda: browser.find_elements(By.CSS_SELECTOR, "#blend .swatch.large"))

    swatch = browser.find_element(By.CSS_SELECTOR, "#blend .swatch.large")
    colour = swatch.value_of_css_property("background-color")
    red, green, blue = (float(part) for part in colour[colour.index("(") + 1 : -1].split(",")[:3])
    assert blue > red and green > red  # the first example is "tropical sea"
    assert "all others" in text(browser, "#matches .rest")


def test_three_numbers_are_no_colour_unless_they_are_stored_as_one(
    browser: Chrome, bundled: Service
) -> None:
    rows = {"casa": [40.4168, 3.7038, 12.5], "piso": [41.25, 2.5, 8]}
    assert bundled.post("/datasets", {"name": "sitios", "entries": rows}).status == 201
    browser.get(bundled.origin + "/?lang=en&dataset=sitios&q=casa&temperature=0.001")
    until(browser, lambda: weights(browser))

    assert not browser.find_elements(By.CSS_SELECTOR, ".swatch")
    assert text(browser, HEADLINE) == "40.42, 3.704, 12.5"
    assert text(browser, "#exact") == "40.4168, 3.7038, 12.5"
    browser.find_element(By.ID, "language").click()
    assert text(browser, "#exact") == "40,4168; 3,7038; 12,5", "no comma beside those of decimals"
    colours = "return arguments[0].map((held) => hasColours('c', [{ values: { c: held } }]))"
    held = [[255, 0, 3], [256, 0, 3], [0, 1, 1], [4, 5, -6], [7, 8], [7, 8, 9, 9]]
    assert browser.execute_script(colours, held) == [True] + 5 * [False]
    assert bundled.ask("DELETE", "/datasets/sitios").status == 204


def test_a_key_without_values_is_said_to_be_there(browser: Chrome, bundled: Service) -> None:
    rows = [{"key": "pan"}, {"key": "sal"}]
    assert bundled.post("/datasets", {"name": "claves", "entries": rows}).status == 201
    browser.get(bundled.origin + "/?lang=en&dataset=claves&q=pan")
    until(browser, lambda: weights(browser))

    there = "the key is there, but has no values"
    assert text(browser, "#exact") == there
    assert said_aloud(browser).startswith(f"By exact lookup: {there}. ")
    browser.find_element(By.CSS_SELECTOR, "#hand summary").click()
    said = "The dataset has no column of values to blend."
    until(browser, lambda: text(browser, "#hand-blend") == said)
    assert bundled.ask("DELETE", "/datasets/claves").status == 204


def test_an_empty_dataset_is_said_to_be_one(browser: Chrome, bundled: Service) -> None:
    assert bundled.post("/datasets", {"name": "vacío", "entries": {"a": 1}}).status == 201
    assert bundled.ask("DELETE", "/datasets/vac%C3%ADo/entries/a").status == 204
    browser.get(bundled.origin + "/?lang=en&dataset=paises&q=animal")
    until(browser, lambda: weights(browser))
    browser.find_element(By.XPATH, "//span[@id='examples']/button[.='país']").click()
    until(browser, lambda: "“país”" in text(browser, "#reason"))
    Select(browser.find_element(By.ID, "dataset")).select_by_value("vacío")
    said = "The dataset “vacío” has no entries: load a table"
    until(browser, lambda: text(browser, "#status").startswith(said))

    assert browser.find_element(By.ID, "q").get_property("value") == ""
    assert not browser.find_element(By.ID, "examples").is_displayed()
    field = browser.find_element(By.ID, "q")
    field.send_keys("pan", Keys.ENTER)
    until(browser, lambda: text(browser, "#trust").startswith(said))
    browser.get(bundled.origin + "/?lang=es&dataset=vacío")
    until(browser, lambda: text(browser, "#status").startswith("El conjunto «vacío» no tiene"))
    assert bundled.ask("DELETE", "/datasets/vac%C3%ADo").status == 204


def test_datasets_that_are_only_passed_through_are_not_asked(
    browser: Chrome, bundled: Service
) -> None:
    rows = {"españa": {"valor": 1}, "perro": {"valor": 2}}
    for name, first in (("otros", "españa"), ("aparte", "a")):
        entries = {first: rows["perro"]} if name == "aparte" else rows
        assert bundled.post("/datasets", {"name": name, "entries": entries}).status == 201
    browser.get(bundled.origin + "/?lang=en&dataset=paises&q=país&where=valor+>+1")
    until(browser, lambda: weights(browser))
    steps = browser.execute_script("return history.length")
    hold(browser, "path.includes('/entries') && !window.through")
    dataset = Select(browser.find_element(By.ID, "dataset"))
    dataset.select_by_value("aparte")
    until(browser, lambda: held(browser))
    browser.execute_script("passed = release; release = null")
    dataset.select_by_value("otros")
    until(browser, lambda: held(browser))
    browser.execute_script("passed(); release()")
    until(browser, lambda: list(weights(browser)) == ["perro"])

    assert browser.execute_script("return history.length") == steps + 1
    where = browser.find_element(By.ID, "where")
    assert where.get_property("value") == "valor > 1", "the columns are the same"
    assert bundled.ask("DELETE", "/datasets/aparte").status == 204
    browser.execute_script("window.release = null")
    dataset.select_by_value("aparte")
    until(browser, lambda: held(browser))
    browser.execute_script("window.through = true; release()")
    until(browser, lambda: text(browser, "#status").startswith("There is no dataset “aparte”"))
    until(browser, lambda: dataset_of(browser) == "paises")
    assert "aparte" not in [each.text for each in dataset.options], "it is offered no more"
    dataset.select_by_value("traduccion")
    until(browser, lambda: "“GATO”" in text(browser, "#reason"))
    assert where.get_property("value") == ""
    browser.get_log("browser")  # the one 404 that was asked for
    assert bundled.ask("DELETE", "/datasets/otros").status == 204


def test_more_keys_are_listed_when_asked_for(browser: Chrome) -> None:
    more = browser.find_element(By.ID, "more")
    assert not more.is_displayed(), "all four are listed"
    Select(browser.find_element(By.ID, "dataset")).select_by_value("colores")
    until(browser, lambda: len(weights(browser)) == 10)
    ten = weights(browser)
    more.send_keys(Keys.ENTER)
    until(browser, lambda: len(weights(browser)) == 20)
    more.send_keys(Keys.ENTER)  # it keeps the focus
    until(browser, lambda: len(weights(browser)) == 30)

    assert dict(list(weights(browser).items())[:10]) == pytest.approx(ten)
    assert "keys: 919" in text(browser, "#matches .rest")
    assert "k=30" in str(browser.find_element(By.ID, "steps").get_attribute("href"))
    browser.refresh()
    until(browser, lambda: len(weights(browser)) == 30)
    more = browser.find_element(By.ID, "more")
    browser.find_element(By.ID, "auto").click()  # the same question at another temperature
    until(browser, lambda: "temperature=" in browser.current_url)
    assert len(weights(browser)) == 30
    for number in range(40, 101, 10):
        more.click()
        until(browser, lambda number=number: len(weights(browser)) == number)
    assert not more.is_displayed()
    assert text(browser, "#first") == "Only the first 100 are listed."
    assert said_aloud(browser) == "Keys listed: 100. Only the first 100 are listed."
    row = browser.find_element(By.CSS_SELECTOR, "#matches li:nth-child(91)")
    assert browser.switch_to.active_element == row, "the first that is new"
    assert len(ask(browser, "wet sand")) == 10
    assert text(browser, "#first") == ""
    browser.back()
    until(browser, lambda: "tropical" in text(browser, "#reason"))
    assert len(weights(browser)) == 100, "as many as that question had"


def test_a_shared_address_is_no_step_to_go_back_through(browser: Chrome, bundled: Service) -> None:
    browser.get("about:blank")
    browser.get(bundled.origin + "/?q=pa%C3%ADs")
    until(browser, lambda: weights(browser))
    browser.back()

    until(browser, lambda: browser.current_url == "about:blank")
    browser.get(bundled.origin)


def test_a_service_that_allows_few_matches_is_not_asked_for_more(
    started_browser: Chrome, tmp_path: Path
) -> None:
    with Service(tmp_path, SOFTDICT_MAX_K="3") as service:
        service.until("/readyz")
        started_browser.get(service.origin + "/?lang=en")
        until(started_browser, lambda: weights(started_browser))

        assert len(weights(started_browser)) == 3
        assert "keys: 1" in text(started_browser, "#matches .rest")
        assert not started_browser.find_element(By.ID, "more").is_displayed()


def test_more_keys_than_the_service_allows_leave_those_that_are_listed(
    started_browser: Chrome, tmp_path: Path
) -> None:
    with Service(tmp_path, SOFTDICT_MAX_K="25") as service:
        service.until("/readyz")
        for k in ("0", "x", "-20", ""):
            started_browser.get(f"{service.origin}/?lang=en&dataset=colores&q=sea&k={k}")
            until(started_browser, lambda: len(weights(started_browser)) == 10)
        started_browser.get(service.origin + "/?lang=en&dataset=colores&q=sea&k=1e9")
        until(started_browser, lambda: len(weights(started_browser)) == 20)
        started_browser.get(service.origin + "/?lang=en&dataset=colores&q=sea")
        until(started_browser, lambda: len(weights(started_browser)) == 10)
        more = started_browser.find_element(By.ID, "more")
        more.click()
        until(started_browser, lambda: len(weights(started_browser)) == 20)
        more.click()
        until(started_browser, lambda: not more.is_displayed())

        until(started_browser, lambda: len(weights(started_browser)) == 20)
        assert text(started_browser, "#status") == ""


def test_the_slider_flattens_the_weights_and_says_so(browser: Chrome) -> None:
    before = ask(browser, "país")
    slider = browser.find_element(By.ID, "temperature")
    slider.send_keys(Keys.END)

    until(browser, lambda: max(weights(browser).values()) < max(before.values()) - 0.05)
    assert sum(weights(browser).values()) == pytest.approx(1.0, abs=1e-4)
    assert not browser.find_element(By.ID, "auto").is_selected()
    assert text(browser, "#tau").startswith("τ = ")
    assert "temperature=" in browser.current_url


def test_the_slider_begins_where_an_automatic_temperature_ends(
    browser: Chrome, bundled: Service
) -> None:
    rows = {"name": "tibia", "entries": {"a": 1, "b": 2}, "temperature": "sqrt_d"}
    assert bundled.post("/datasets", rows).status == 201
    browser.get(bundled.origin + "/?lang=en&dataset=tibia&q=a")
    until(browser, lambda: text(browser, "#tau") == "τ = 19.6")
    browser.find_element(By.ID, "auto").click()
    until(browser, lambda: "temperature=19.6" in browser.current_url)

    assert text(browser, "#tau") == "τ = 19.6"
    assert bundled.ask("DELETE", "/datasets/tibia").status == 204


def test_an_arrow_key_moves_the_temperature_by_a_few_per_cent(browser: Chrome) -> None:
    step = browser.execute_script(  # as an arrow key does in Firefox: of a step of "any" it makes 1
        "const slider = document.getElementById('temperature');"
        "const before = slider.valueAsNumber;"
        "slider.stepUp();"
        "return slider.valueAsNumber - before"
    )

    assert 1.01 < 10**step < 1.1


def test_a_condition_filters_the_bars_and_its_fault_is_named_by_place(browser: Chrome) -> None:
    field = browser.find_element(By.ID, "where")
    assert field.get_attribute("placeholder") == "for example: valor < 8"
    assert text(browser, "#columns") == f"{UNDERSTOOD}; columns: valor (numbers)"
    field.send_keys("valor >= 8", Keys.ENTER)
    until(browser, lambda: set(weights(browser)) == {"alemania", "inglaterra"})

    assert sum(weights(browser).values()) == pytest.approx(1.0, abs=1e-4)
    assert "where=valor" in browser.current_url
    assert text(browser, "#reason") == "No key that meets the condition is written exactly “país”."
    field.send_keys(" and", Keys.ENTER)
    until(browser, lambda: "where: character 15: the condition ends" in text(browser, "#status"))
    assert field.get_attribute("aria-invalid") == "true"
    field.clear()
    field.send_keys(Keys.ENTER)
    until(browser, lambda: len(weights(browser)) == 4)
    assert field.get_attribute("aria-invalid") is None


def test_a_condition_that_no_entry_meets_is_said_to_be_one(
    browser: Chrome, bundled: Service
) -> None:
    browser.get(bundled.origin + "/?lang=en&dataset=paises&q=país&where=valor+%3E+10")
    until(browser, lambda: text(browser, "#reason"))

    said = "No entry meets the condition."
    assert text(browser, "#trust") == said  # and nothing of labels: the condition names none
    assert str(browser.find_element(By.ID, "spoken").get_property("textContent")).endswith(said)
    assert not weights(browser)
    for empty in ("blend", "weights", "facts", "hand"):
        assert not browser.find_element(By.ID, empty).is_displayed()
    browser.find_element(By.ID, "where").clear()
    browser.find_element(By.ID, "q").send_keys(Keys.ENTER)
    until(browser, lambda: len(weights(browser)) == 4)
    for shown in ("blend", "weights", "facts", "hand"):
        assert browser.find_element(By.ID, shown).is_displayed()


def test_keys_without_values_are_said_to_be_so(browser: Chrome, bundled: Service) -> None:
    assert bundled.post("/datasets", {"name": "bare", "entries": {"a": {}, "b": {}}}).status == 201
    browser.get(bundled.origin + "/?lang=en&dataset=bare&q=a")
    until(browser, lambda: weights(browser))

    assert text(browser, "#blend") == "The dataset has no column of values to blend."
    assert bundled.ask("DELETE", "/datasets/bare").status == 204


def test_a_margin_of_error_is_asked_with_and_what_was_scored_is_said(browser: Chrome) -> None:
    field = browser.find_element(By.ID, "tolerance")
    assert field.get_attribute("placeholder") == "0.03"
    assert "Keys scored\nevery one" in text(browser, "#facts")
    field.send_keys("0,1", Keys.ENTER)
    until(browser, lambda: "tolerance=0.1" in browser.current_url)
    field.send_keys("x", Keys.ENTER)
    said = "margin of error: write a number from 0"
    until(browser, lambda: text(browser, "#status").startswith(said))
    until(browser, lambda: focused(browser) == "tolerance")
    assert field.get_attribute("aria-invalid") == "true"

    attention = {"scored": 5012, "keys": 1000000, "coverage": 0.9923, "error": 0.0101}
    said = browser.execute_script("return drawScored(arguments[0])", attention)
    assert said == "5012 of 1,000,000, with 99.2% of the weight; weights within ±0.011"


def test_attributes_are_shown_beside_the_values(browser: Chrome, bundled: Service) -> None:
    vino = {"precio": 9, "país de origen": "ES", "constructor": 3}  # a name of JavaScript's own
    rows = {"vino": vino, "sake": {"precio": 8}}
    body = {"name": "bar", "entries": rows, "attributes": ["país de origen", "constructor"]}
    assert bundled.post("/datasets", body).status == 201
    browser.get(bundled.origin + "/?lang=es&dataset=bar&q=vino&where=precio+%3E+8")
    until(browser, lambda: weights(browser))

    assert list(weights(browser)) == ["vino"]
    letters = (
        "Ninguna entrada cumple la condición. Las etiquetas tienen que coincidir letra por letra."
    )
    values = [each.text for each in browser.find_elements(By.CSS_SELECTOR, "#matches .value")]
    assert values == ["9", "país de origen: ES", "constructor: 3"]
    assert len(browser.find_elements(By.CSS_SELECTOR, "#blend .blend")) == 1
    field = browser.find_element(By.ID, "where")
    assert field.get_attribute("value") == "precio > 8"
    assert field.get_attribute("placeholder") == "por ejemplo: precio < 9"
    named = "precio (números), [país de origen] (textos), constructor (números)"
    understood = "se entienden and, or, not, in (…) e is missing"
    assert text(browser, "#columns") == f"{understood}; columnas: {named}"
    field.clear()
    field.send_keys("[país de origen] = es", Keys.ENTER)
    until(browser, lambda: text(browser, "#trust") == letters)
    assert bundled.ask("DELETE", "/datasets/bar").status == 204


@pytest.mark.parametrize(
    ("entries", "example"),
    [
        ({"a": {"n": 12.5, "t": "x"}, "b": {"n": 3}, "c": {"n": 40}}, "n < 12.5"),
        ({"a": {"n": 5}, "b": {"n": 5}, "c": {"n": None}}, "n <= 5"),
        ({"a": {"lo que sea": 'di "hola"'}, "b": {}}, '[lo que sea] = "di ""hola"""'),
        ({"a": {"t": "x" * 90}}, "t = …"),
        ({"a": {"missing": 5}, "b": {"missing": 7}}, "[missing] < 7"),
        ({"a": {"a]b": 5}, "b": {"a]b": 7}}, "[a]]b] < 7"),
    ],
)
def test_a_condition_is_shown_that_some_entry_meets(
    browser: Chrome, bundled: Service, entries: dict[str, dict[str, object]], example: str
) -> None:
    assert bundled.post("/datasets", {"name": "shown", "entries": entries}).status == 201
    browser.get(bundled.origin + "/?lang=en&dataset=shown&q=a")
    until(browser, lambda: weights(browser))
    field = browser.find_element(By.ID, "where")
    placeholder = str(field.get_attribute("placeholder"))

    assert placeholder == f"for example: {example}"
    if "…" not in example:
        field.send_keys(example, Keys.ENTER)
        until(browser, lambda: 0 < len(weights(browser)) < len(entries))
    assert bundled.ask("DELETE", "/datasets/shown").status == 204


def test_the_language_can_be_changed(browser: Chrome) -> None:
    ask(browser, "país")
    browser.find_element(By.ID, "language").click()

    assert browser.find_element(By.TAG_NAME, "html").get_attribute("lang") == "es"
    assert (text(browser, "#soft-title"), text(browser, "#exact")) == ("Por significado", "nada")
    left = browser.execute_script("return [1, 2, 60, 61, 5400].map((each) => left(duration(each)))")
    assert [each.replace("\u00a0", " ") for each in left] == [
        "queda 1 s", "quedan 2 s", "queda 1 min", "quedan 2 min", "quedan 1 h 30 min",
    ]  # fmt: skip


def test_what_is_set_is_written_in_another_language_without_an_answer_too(
    browser: Chrome, bundled: Service
) -> None:
    browser.get(bundled.origin + "/?lang=en&dataset=nowhere&temperature=0.25")
    until(browser, lambda: text(browser, "#status"))
    browser.find_element(By.ID, "language").click()

    slider = browser.find_element(By.ID, "temperature")
    assert slider.get_attribute("aria-valuetext") == text(browser, "#tau") == "τ = 0,25"


def test_a_page_is_called_by_its_question_and_its_parts_have_headings(browser: Chrome) -> None:
    ask(browser, "país")
    assert browser.title == "país · paises · softdict"
    headings = "return [...document.querySelectorAll('h2, h3')].map((each) => each.textContent)"
    assert browser.execute_script(headings) == [
        "By meaning", "valor", "How much each key counts", "By exact lookup",
        "With weights of your own", "Load, download or delete a table",
    ]  # fmt: skip
    browser.find_element(By.ID, "auto").send_keys("/")
    assert browser.switch_to.active_element.get_attribute("id") == "auto", "WCAG 2.2, 2.1.4"
    Select(browser.find_element(By.ID, "dataset")).select_by_value("traduccion")
    until(browser, lambda: browser.title == "GATO · traduccion · softdict")


def test_columns_stand_as_in_the_file_and_marks_in_their_names_stay_text(
    browser: Chrome, bundled: Service
) -> None:
    rows = {"pan": {"b": 1, "2024": 2, "2023": 3, "{1}": 4}}
    assert bundled.post("/datasets", {"name": "años", "entries": rows}).status == 201
    browser.get(bundled.origin + "/?lang=es&dataset=años&q=pan")
    until(browser, lambda: weights(browser))

    values = [each.text for each in browser.find_elements(By.CSS_SELECTOR, "#matches .value")]
    assert values == ["b: 1", "2024: 2", "2023: 3", "{1}: 4"]
    assert text(browser, "#exact").split("\n")[::2] == [*rows["pan"]]
    assert said_aloud(browser).startswith("b: 1. 2024: 2. 2023: 3.")
    named = browser.execute_script("return t('loaded', '1', '{2}', '{0}')")
    assert "Columna de claves: {2}. Las demás: {0}." in named
    assert bundled.ask("DELETE", "/datasets/a%C3%B1os").status == 204


def test_a_table_of_one_s_own_is_loaded_and_markup_in_it_stays_text(
    browser: Chrome, tmp_path: Path
) -> None:
    key = "<img src=x onerror=alert(1)><b>bold</b>"
    table = tmp_path / "mine & yours.csv"
    table.write_text(f'key,value\n"{key}",<i>first</i>\nother,second\n', "utf-8")
    load = chosen(browser, table)
    assert browser.find_element(By.ID, "name").get_property("value") == "mine-yours"
    load.click()

    until(browser, lambda: "Entries loaded: 2." in text(browser, "#loading"))
    until(browser, lambda: key in weights(browser))
    assert browser.find_elements(By.CSS_SELECTOR, "main img, main b, main i") == []
    assert key in text(browser, "#matches")


def test_numbers_are_shown_with_their_unit(
    browser: Chrome, bundled: Service, tmp_path: Path
) -> None:
    table = tmp_path / "tarifas.csv"
    table.write_text("pieza;precio;aforo\nsilla;12,50 €;5 %\nmesa;30,00 €;7 %\n", "utf-8")
    load = chosen(browser, table)
    browser.find_element(By.ID, "attributes").send_keys("aforo")
    load.click()
    said = (
        "Entries loaded: 2. Column of keys: pieza. "
        "Others: precio (numbers, €), aforo (numbers, to filter by, %)."
    )
    until(browser, lambda: text(browser, "#loading") == said)
    browser.get(bundled.origin + "/?lang=es&dataset=tarifas&q=silla&temperature=0.01")
    until(browser, lambda: weights(browser))

    assert text(browser, "#exact").replace("\u00a0", " ") == "12,5 €"
    shown = text(browser, "#blend .headline").replace("\u00a0", " ")
    assert shown == "12,5 € el 90 % del peso está en 12,5 €"
    values = browser.find_elements(By.CSS_SELECTOR, "#matches li:first-child .value")
    assert [each.text.replace("\u00a0", " ") for each in values] == ["12,5 €", "aforo: 5 %"]
    assert "precio: 12,5 €." in text(browser, "#spoken").replace("\u00a0", " ")
    assert bundled.ask("DELETE", "/datasets/tarifas").status == 204


def test_a_table_is_loaded_with_a_column_of_keys_and_attributes_of_one_s_choice(
    browser: Chrome, bundled: Service, tmp_path: Path
) -> None:
    table = tmp_path / "shop.csv"
    table.write_text("price,thing,aisle\n1,apple,fresh\n2,soap,cleaning\n", "utf-8")
    load = chosen(browser, table)
    browser.find_element(By.ID, "key").send_keys("thing")
    browser.find_element(By.ID, "attributes").send_keys("aisle")
    load.click()

    until(browser, lambda: "Entries loaded: 2." in text(browser, "#loading"))
    columns = bundled.get("/datasets/shop").json["columns"]
    assert [(each["name"], each.get("attribute", False)) for each in columns] == [
        ("price", False), ("aisle", True),
    ]  # fmt: skip
    until(browser, lambda: set(weights(browser)) == {"apple", "soap"})


def test_a_cell_that_spoils_a_column_is_named_and_can_be_said_to_hold_nothing(
    browser: Chrome, bundled: Service, tmp_path: Path
) -> None:
    table = tmp_path / "rebajas.csv"
    table.write_text("pieza;precio\nsilla;12,50 €\nmesa;consultar\n", "utf-8")
    load = chosen(browser, table)
    load.click()
    until(browser, lambda: "on line 3, 'consultar' is not a number" in text(browser, "#loading"))
    browser.find_element(By.ID, "language").click()
    note = text(browser, "#loading [lang=en]")
    assert "on line 3, 'consultar' is not a number" in note
    assert text(browser, "#loading").endswith("El servicio lo explica en inglés:\n" + note)
    browser.find_element(By.ID, "language").click()
    browser.find_element(By.ID, "file").send_keys(str(table))
    browser.find_element(By.ID, "missing").send_keys("consultar, agotado")
    Select(browser.find_element(By.ID, "exists")).select_by_value("replace")
    load.click()
    WebDriverWait(browser, PATIENCE).until(alert_is_present()).accept()

    until(browser, lambda: "Others: precio (numbers, €)." in text(browser, "#loading"))
    assert "consultar" not in text(browser, "#loading")
    assert bundled.get("/datasets/rebajas/entries/mesa").json["values"] == {"precio": None}
    assert bundled.ask("DELETE", "/datasets/rebajas").status == 204


def test_columns_are_left_out_and_the_first_line_is_what_one_says(
    browser: Chrome, bundled: Service, tmp_path: Path
) -> None:
    table = tmp_path / "nested.jsonl"
    table.write_text('{"k": "a", "v": 1, "o": {"x": 1}}\n{"k": "b", "v": 2, "o": {}}\n', "utf-8")
    load = chosen(browser, table)
    load.click()
    until(browser, lambda: "'skip' in the option columns" in text(browser, "#loading"))
    browser.find_element(By.ID, "types").send_keys("o=skip, v=category")
    load.click()
    until(browser, lambda: "Others: v (labels)." in text(browser, "#loading"))

    table = tmp_path / "plain.csv"
    table.write_text("one,two\nthree,four\n", "utf-8")
    browser.find_element(By.ID, "file").send_keys(str(table))
    Select(browser.find_element(By.ID, "header")).select_by_value("no")
    load.click()
    until(browser, lambda: "Entries loaded: 2." in text(browser, "#loading"))
    assert bundled.get("/datasets/plain/entries/one").json["values"] == {"value": "two"}
    until(browser, lambda: set(weights(browser)) == {"one", "three"})  # nothing is asked any more
    for name in ("nested", "plain"):
        assert bundled.ask("DELETE", f"/datasets/{name}").status == 204


def test_shares_of_labels_make_a_whole(browser: Chrome, bundled: Service) -> None:
    entries = {f"k{n}": {"etiqueta": f"l{n % 40}", "n": 1234.5} for n in range(80)}
    columns = {"etiqueta": "category"}
    body = {"name": "many", "entries": entries, "columns": columns}
    assert bundled.post("/datasets", body).status == 201
    browser.get(bundled.origin + "/?lang=es&dataset=many&q=k1")
    until(browser, lambda: weights(browser))

    rows = [row.text.split("\n") for row in browser.find_elements(By.CSS_SELECTOR, ".shares li")]
    assert len(rows) == 6 and rows[-1][0] == "las demás etiquetas"
    shares = [float(row[-1].split()[0].replace(",", ".")) for row in rows]
    assert sum(shares) == pytest.approx(100, abs=0.4)
    # The ends of an interval are values of the table, and not rounded.
    said = text(browser, "#blend").replace(".", "")
    assert "el 90 % del peso y de los valores no vistos está en 1234,5" in said
    assert bundled.ask("DELETE", "/datasets/many").status == 204


def test_a_number_says_and_shows_where_an_unseen_one_lies(
    browser: Chrome, bundled: Service
) -> None:
    entries = {f"k{n}": n % 9 for n in range(80)}
    assert bundled.post("/datasets", {"name": "many", "entries": entries}).status == 201
    browser.get(bundled.origin + "/?lang=en&dataset=many&q=k1&temperature=0.002")
    until(browser, lambda: weights(browser))
    blend = bundled.get("/search?dataset=many&q=k1&temperature=0.002").json["blend"]["value"]
    (low, high), (least, greatest) = blend["interval"], blend["prediction_interval"]
    bands = {
        name: browser.find_element(By.CSS_SELECTOR, f".axis .{name}").rect["width"]
        for name in ("band", "unseen")
    }

    assert low == high and least < greatest
    said = f"lies at {low:.0f}; 90% of unseen values between {least:.3g} and {greatest:.3g}"
    assert said in text(browser, "#blend")
    assert bands["band"] < bands["unseen"]
    assert bundled.ask("DELETE", "/datasets/many").status == 204


def test_numbers_that_lie_close_together_are_told_apart(browser: Chrome, bundled: Service) -> None:
    entries = {
        f"pueblo {n}": {"lat": 40.41 + n * 7 % 97 / 10_000, "price": round(6.253 + n * 1.127, 2)}
        for n in range(80)
    }
    assert bundled.post("/datasets", {"name": "near", "entries": entries}).status == 201

    def drawn(temperature: float) -> tuple[list[str], dict[str, dict[str, Any]]]:
        asked = f"dataset=near&q=villa&temperature={temperature}"
        browser.get(f"{bundled.origin}/?lang=en&{asked}")
        until(browser, lambda: weights(browser))
        shown = browser.find_elements(By.CSS_SELECTOR, "#blend .blend")
        return [each.text for each in shown], bundled.get(f"/search?{asked}").json["blend"]

    (latitude, _), blends = drawn(0.2)
    low, high = blends["lat"]["interval"]
    assert 0 < high - low < 0.01
    shown = f"{blends['lat']['mean']:.4f}".rstrip("0")
    assert latitude.startswith(f"lat\n{shown} 90% of the weight")

    (_, price), blends = drawn(0.005)
    least, greatest = blends["price"]["prediction_interval"]
    found = re.search(r"unseen values between ([\d.]+) and ([\d.]+)", price)
    assert found
    assert float(found[1]) <= least and greatest <= float(found[2]), "no narrower than it is"
    assert float(found[1]) == pytest.approx(least, abs=1)
    assert float(found[2]) == pytest.approx(greatest, abs=1)

    assert bundled.post("/datasets", {"name": "one", "entries": {"a": 40.4168}}).status == 201
    browser.get(bundled.origin + "/?lang=en&dataset=one&q=a")
    until(browser, lambda: text(browser, "#blend .headline").startswith("40.4168 "))
    for name in ("near", "one"):
        assert bundled.ask("DELETE", f"/datasets/{name}").status == 204


def test_no_more_keys_answer_than_there_are(browser: Chrome, bundled: Service) -> None:
    entries = {f"k{i}": i for i in range(10_060)}
    body = {"name": "muchas", "entries": entries, "encoder": "random"}
    assert bundled.post("/datasets", body).status == 201
    browser.get(bundled.origin + "/?lang=en&dataset=muchas&q=k7&temperature=800")
    until(browser, lambda: weights(browser))

    assert "Effective keys\n10,060 of 10,060" in text(browser, "#facts")
    browser.find_element(By.ID, "steps-title").click()
    until(browser, lambda: "sum of exp" in text(browser, "#explanation"))
    assert "over all keys\n10,047" in text(browser, "#explanation"), "10,060 · exp(−1/800)"
    assert bundled.ask("DELETE", "/datasets/muchas").status == 204


def test_the_one_value_of_a_drawing_is_not_rounded(browser: Chrome, bundled: Service) -> None:
    body = {"name": "mitad", "entries": {"a": 1979.5, "b": 1979.5}}
    assert bundled.post("/datasets", body).status == 201
    browser.get(bundled.origin + "/?lang=en&dataset=mitad&q=a")
    until(browser, lambda: weights(browser))

    assert text(browser, "#blend .axis") == "1979.5"
    assert bundled.ask("DELETE", "/datasets/mitad").status == 204


def test_where_the_comma_is_decimal_a_point_is_said_to_be_read_as_one(
    browser: Chrome, bundled: Service
) -> None:
    said = "En la condición, 7.500 es 7,5: el punto separa los decimales."
    for where, wanted in {
        "valor >= 7.500": said,
        "valor >= 7500": "",
        "valor >= 7.50": "",
        "not valor in (7, 1.200)": said.replace("7.500 es 7,5", "1.200 es 1,2"),
        "valor < 12.345": said.replace("7.500 es 7,5", "12.345 es 12,345"),
        "not valor in (3,5, 6)": said.replace("7.500 es 7,5", "3,5 son dos números, 3 y 5"),
        "not valor in (3,5,6)": "",
    }.items():
        query = urlencode({"lang": "es", "dataset": "paises", "q": "país", "where": where})
        browser.get(f"{bundled.origin}/?{query}")
        until(browser, lambda: text(browser, "#trust"))
        assert text(browser, "#status") == wanted
    quoted = [f"a = {pair[0]}7.500 1,5{pair[1]}" for pair in ("“”", "‘’", "«»", '""', "''")]
    for where in (*quoted, "[a 7.500] = 1", '{"a": [7.500, 2]}', "x7.500 = 1", "[a 1,5] = 1"):
        assert browser.execute_script("return misread({ where: arguments[0] })", where) == []
    query = urlencode({"lang": "en", "dataset": "paises", "q": "a", "where": "valor >= 7.500"})
    browser.get(f"{bundled.origin}/?{query}")
    until(browser, lambda: text(browser, "#trust"))
    assert text(browser, "#status") == ""


def test_a_table_is_named_as_its_file_unless_a_name_was_typed(
    browser: Chrome, tmp_path: Path
) -> None:
    name, file = browser.find_element(By.ID, "name"), browser.find_element(By.ID, "file")
    browser.find_element(By.ID, "own").click()
    spelled = {"an\u0303o 2026.csv": "año-2026", "हिन्दी.csv": "हिन्दी", "(1) x.csv.gz": "1-x"}
    spelled |= {"_ventas.CSV.GZ": "ventas", f"{'x' * 150}.csv": "x" * 100}
    assert {".md", ".gz"} <= set(str(file.get_attribute("accept")).split(","))
    for filename, wanted in spelled.items():
        (tmp_path / filename).touch()
        file.send_keys(str(tmp_path / filename))
        assert name.get_property("value") == wanted
        check_name(wanted)
    name.clear()
    name.send_keys("mine")
    file.send_keys(str(tmp_path / "(1) x.csv.gz"))
    assert name.get_property("value") == "mine"
    name.clear()
    name.send_keys(" mis  precios ", Keys.TAB)
    assert name.get_property("value") == "mis-precios", "no name has a space"


def test_of_many_bad_rows_it_is_said_how_many_there_are(browser: Chrome, tmp_path: Path) -> None:
    table = tmp_path / "holes.csv"
    table.write_text("key,value\na,1\n" + ",2\n" * 150)
    load = chosen(browser, table)
    load.click()

    until(browser, lambda: "line 3: the key is empty" in text(browser, "#loading"))
    assert "(and 145 more). Correct them, or load with on_error=skip" in text(browser, "#loading")
    browser.find_element(By.XPATH, "//label[contains(., 'on_error=skip')]").click()
    load.click()
    until(browser, lambda: "Entries loaded: 1." in text(browser, "#loading"))
    said, *rows = text(browser, "#loading").split("\n")
    assert said.endswith(" Rows left out: 150.")
    assert rows == [*(f"line {line}: the key is empty" for line in range(3, 13)), "…"]
    assert not browser.find_element(By.ID, "skip").is_selected(), "each load is asked for anew"


def test_a_file_that_was_corrected_since_it_was_chosen_is_to_be_chosen_again(
    browser: Chrome, bundled: Service, tmp_path: Path
) -> None:
    table = tmp_path / "corrected.csv"
    table.write_text("key,value\na,1\na,2\n")
    load = chosen(browser, table)
    load.click()
    until(browser, lambda: "came on line 2 already" in text(browser, "#loading"))
    table.write_text("key,value\na,1\nb,2\n")
    os.utime(table, (1, 1))  # no clock is so coarse as to miss it
    load.click()
    until(browser, lambda: text(browser, "#loading").startswith("The file has changed, or is gone"))
    until(browser, lambda: focused(browser) == "file")
    browser.get_log("browser")  # the request that the browser did not send

    browser.find_element(By.ID, "file").send_keys(str(table))
    load.click()
    until(browser, lambda: set(weights(browser)) == {"a", "b"})
    assert bundled.ask("DELETE", "/datasets/corrected").status == 204


def test_a_form_for_a_table_is_not_half_filled_when_one_comes_back(
    browser: Chrome, bundled: Service, tmp_path: Path
) -> None:
    table = tmp_path / "mine.csv"
    table.write_text("key,value\na,1\n")
    kept = (
        "return ['file', 'name', 'exists', 'skip']"
        ".map((id) => document.getElementById(id)).map((field) => field.checked || field.value)"
    )
    empty = browser.execute_script(kept)
    chosen(browser, table)
    Select(browser.find_element(By.ID, "exists")).select_by_value("append")
    browser.find_element(By.ID, "skip").click()
    assert not set(empty) & set(browser.execute_script(kept))
    browser.execute_script("addEventListener('unload', () => {})")  # none is kept as it was left
    browser.get(bundled.origin + "/healthz")
    browser.back()
    until(browser, lambda: weights(browser))

    assert browser.execute_script(kept) == empty


def test_rows_of_a_key_that_came_before_are_counted(
    browser: Chrome, bundled: Service, tmp_path: Path
) -> None:
    table = tmp_path / "again.csv"
    table.write_text("key,value\na,1\na,2\nb,3\na,6\n")
    load = chosen(browser, table)
    Select(browser.find_element(By.ID, "duplicates")).select_by_value("mean")
    load.click()
    until(browser, lambda: "Entries loaded: 2." in text(browser, "#loading"))
    assert text(browser, "#loading").endswith(" Rows of a key that came before: 2.")
    assert bundled.ask("DELETE", "/datasets/again").status == 204


def test_a_long_load_shows_its_progress_and_can_be_cancelled(
    browser: Chrome, bundled: Service, tmp_path: Path
) -> None:
    table = tmp_path / "long.csv"
    table.write_text("key,value\n" + "".join(f"row number {i},{i}\n" for i in range(40_000)))
    chosen(browser, table).click()

    until(browser, lambda: "Encoding" in text(browser, "#loading"))
    until(browser, lambda: PACE.search(text(browser, "#loading")))
    browser.execute_script(
        "window.asked = []; const answered = window.fetch; const cancel = $('cancel');"
        "window.fetch = (...all) => { asked.push(all[1]?.method); return answered(...all); };"
        "cancel.focus(); cancel.click(); cancel.click();"
    )
    until(browser, lambda: text(browser, "#loading") == "Cancelled; nothing was loaded.")
    until(browser, lambda: not browser.find_element(By.ID, "cancel").is_displayed())
    assert browser.execute_script("return asked").count("DELETE") == 1
    assert focused(browser) == "loading"
    browser.find_element(By.ID, "language").click()
    assert text(browser, "#loading") == "Cancelado; no se ha cargado nada."
    assert bundled.get("/datasets/long").status == 404


def test_a_load_that_ends_leaves_what_a_person_does_meanwhile_alone(
    browser: Chrome, bundled: Service, tmp_path: Path
) -> None:
    table = tmp_path / "listo.csv"
    table.write_text("key,value\nuno,1\ndos,2\n", "utf-8")
    load = chosen(browser, table)
    hold(browser, "options?.method === 'POST'")
    load.click()
    until(browser, lambda: held(browser))
    browser.find_element(By.ID, "where").send_keys("valor > 5")
    question = browser.find_element(By.ID, "q")
    question.clear()
    question.send_keys("half a ques")
    address = browser.current_url
    browser.execute_script("release()")
    until(browser, lambda: text(browser, "#loading").endswith("Go to “listo”"))
    until(browser, load.is_enabled)

    dataset = Select(browser.find_element(By.ID, "dataset"))
    assert (dataset.first_selected_option.text, browser.current_url) == ("paises", address)
    assert "listo" in [each.text for each in dataset.options]
    assert browser.find_element(By.ID, "where").get_property("value") == "valor > 5"
    assert question.get_property("value") == "half a ques"
    assert focused(browser) == "q"
    browser.find_element(By.CSS_SELECTOR, "#loading button").click()
    until(browser, lambda: set(weights(browser)) == {"uno", "dos"})
    assert focused(browser) == "dataset"
    assert bundled.ask("DELETE", "/datasets/listo").status == 204


def test_a_table_on_its_way_to_the_service_can_be_stopped(
    browser: Chrome, bundled: Service, tmp_path: Path
) -> None:
    table = tmp_path / "slow.csv"
    table.write_text("key,value\n" + "".join(f"row number {i},{i}\n" for i in range(40_000)))
    slow = {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": 20_000}
    load = chosen(browser, table)
    try:
        browser.execute_cdp_cmd("Network.emulateNetworkConditions", slow)
        load.click()
        until(browser, browser.find_element(By.ID, "cancel").is_displayed)
        browser.find_element(By.ID, "cancel").click()
        until(browser, lambda: text(browser, "#loading").startswith("Cancelled. If all of it"))
    finally:
        browser.execute_cdp_cmd(
            "Network.emulateNetworkConditions", {**slow, "uploadThroughput": -1}
        )

    until(browser, load.is_enabled)
    assert bundled.get("/datasets/slow").status == 404


def test_faults_of_a_load_lead_to_their_fields(
    browser: Chrome, bundled: Service, tmp_path: Path
) -> None:
    def value(field: str, typed: str) -> None:
        found = browser.find_element(By.ID, field)
        found.clear()
        found.send_keys(typed)

    table = tmp_path / "café.csv"
    table.write_bytes("producto;precio\ncafé;1,500\ncafé;2,500\n".encode("cp1252"))
    load = chosen(browser, table)
    named = "return [...$('upload').querySelectorAll('label code')].map((each) => each.textContent)"
    assert browser.execute_script(named) == [
        "key", "attributes", "missing", "columns", "header", "if_exists", "duplicates", "encoding",
        "decimal", "on_error=skip",
    ]  # fmt: skip
    value("name", ".x")
    value("encoding", "bogus")
    load.send_keys(Keys.ENTER)
    until(browser, lambda: focused(browser) == "name")
    marked = browser.find_elements(By.CSS_SELECTOR, "#upload [aria-invalid]")
    assert [each.get_attribute("id") for each in marked] == ["name", "encoding"]
    assert {each.get_attribute("aria-errormessage") for each in marked} == {"loading"}
    lines = text(browser, "#loading").split("\n")
    assert lines[0].startswith("Name: write 1 to 100 letters")
    assert lines[1].startswith("Encoding of the text: 'bogus' is no encoding")
    browser.find_element(By.ID, "language").click()
    said = "Codificación del texto: 'bogus' is no encoding"
    assert said in text(browser, "#loading") and said not in text(browser, "#loading [lang=en]")

    value("name", "café")
    value("encoding", "cp1252")
    value("types", "precio=money, producto=thing")
    load.click()
    until(browser, lambda: "Tipos de las columnas, precio: write" in text(browser, "#loading"))
    assert "Tipos de las columnas, producto: write" in text(browser, "#loading")
    value("types", "")
    load.click()
    until(browser, lambda: "duplicates=first, last or mean" in text(browser, "#loading"))
    until(browser, lambda: focused(browser) == "file")
    Select(browser.find_element(By.ID, "duplicates")).select_by_value("mean")
    Select(browser.find_element(By.ID, "decimal")).select_by_value("comma")
    load.click()
    until(browser, lambda: list(weights(browser)) == ["café"])
    assert bundled.get("/datasets/caf%C3%A9/entries/caf%C3%A9").json["values"] == {"precio": 2}
    until(browser, lambda: focused(browser) == "load")
    assert not browser.find_elements(By.CSS_SELECTOR, "#upload [aria-invalid]")
    assert bundled.ask("DELETE", "/datasets/caf%C3%A9").status == 204


def test_a_load_is_shown_again_to_who_left_the_page(
    started_browser: Chrome, tmp_path: Path
) -> None:
    browser = started_browser
    table = tmp_path / "long.csv"
    table.write_text("key,value\n" + "".join(f"row number {i},{i}\n" for i in range(40_000)))
    brief = tmp_path / "brief.csv"
    brief.write_text("key,value\na,1\n")
    with Service(tmp_path / "store", SOFTDICT_AT_ONCE="0") as service:
        service.until("/readyz")
        browser.get(service.origin + "/?lang=en")
        until(browser, lambda: weights(browser))
        chosen(browser, table).click()
        until(browser, lambda: "Encoding" in text(browser, "#loading"))
        browser.get(service.origin + "/?lang=es&q=perro")
        until(browser, lambda: "Codificando" in text(browser, "#loading"))
        assert not browser.find_element(By.CSS_SELECTOR, "#upload .main").is_enabled()
        here = browser.current_window_handle
        browser.switch_to.new_window("tab")
        browser.get(service.origin + "/?lang=en")
        until(browser, lambda: weights(browser))
        elsewhere = text(browser, "#loading")
        browser.close()
        browser.switch_to.window(here)
        assert elsewhere == "", "another tab has nothing to do with it"
        until(browser, lambda: text(browser, "#exact") == "5")  # questions are answered meanwhile
        browser.find_element(By.ID, "cancel").click()
        until(browser, lambda: text(browser, "#loading").startswith("Cancelado"))
        browser.refresh()
        until(browser, lambda: weights(browser))
        chosen(browser, brief)
        assert text(browser, "#loading") == "", "an end that was seen is not said twice"

        def load_and_leave(doing: str = "") -> None:
            browser.execute_script(LEAVING.replace("DOING", doing))
            browser.find_element(By.CSS_SELECTOR, "#upload .main").click()
            until(browser, lambda: browser.current_url == "about:blank")
            while service.get("/jobs").json["jobs"][0]["finished"] is None:
                pass
            browser.get(service.origin + "/?lang=en&q=perro")
            until(browser, lambda: "Entries loaded: 1." in text(browser, "#loading"))

        load_and_leave()
        until(browser, lambda: list(weights(browser)) == ["a"])
        browser.find_element(By.ID, "file").send_keys(str(brief))
        browser.find_element(By.ID, "name").send_keys("again")
        load_and_leave("$('auto').click();")
        assert text(browser, "#loading").endswith("Go to “briefagain”")
        assert len(weights(browser)) == 4


# A page that is left as soon as the service has taken in a table.
LEAVING = """
const answered = window.fetch;
window.fetch = async (path, options) => {
  if (path.startsWith("jobs/")) {
    DOING
    location.href = "about:blank";
    await new Promise(() => {});
  }
  return answered(path, options);
};
"""


@pytest.mark.parametrize("storage", ["null", "(() => { throw new Error('denied'); })()"])
def test_a_table_is_loaded_where_a_browser_keeps_nothing(
    browser: Chrome, bundled: Service, tmp_path: Path, storage: str
) -> None:
    table = tmp_path / "unkept.csv"
    table.write_text("key,value\na,1\n")
    nothing = f"Object.defineProperty(window, 'sessionStorage', {{ get: () => {storage} }})"
    with opened_with(browser, nothing, bundled.origin + "/?lang=en"):
        until(browser, lambda: weights(browser))
        chosen(browser, table).click()
        until(browser, lambda: list(weights(browser)) == ["a"])

    assert text(browser, "#loading").startswith("Entries loaded: 1.")
    assert bundled.ask("DELETE", "/datasets/unkept").status == 204


def test_what_is_refused_is_said(browser: Chrome) -> None:
    ask(browser, "país")
    browser.find_element(By.ID, "q").clear()
    browser.execute_script("document.getElementById('q').value = 'x'.repeat(5000)")
    browser.find_element(By.CSS_SELECTOR, "#ask .main").click()

    said = "Look up: at most 4,000 characters"
    until(browser, lambda: text(browser, "#status").startswith(said))
    until(browser, lambda: focused(browser) == "q")
    assert browser.find_element(By.ID, "q").get_attribute("aria-invalid") == "true"
    assert not browser.find_element(By.ID, "result").is_displayed()


def test_one_answer_never_stands_under_another_question(browser: Chrome, bundled: Service) -> None:
    def shown() -> bool:
        return browser.find_element(By.ID, "result").is_displayed()

    ask(browser, "país")
    steps = browser.find_element(By.ID, "steps").get_attribute("href")
    field = browser.find_element(By.ID, "q")
    field.clear()
    field.send_keys("unasked")
    browser.find_element(By.ID, "language").click()
    assert browser.find_element(By.ID, "steps").get_attribute("href") == steps
    browser.find_element(By.ID, "where").send_keys("prize < 5", Keys.ENTER)
    until(browser, lambda: not shown())
    browser.find_element(By.ID, "language").click()
    assert not shown()

    long = " ".join(["a key of very many words"] * 4)
    for name, rows in (("faq", {long: 1}), ("constructor", {"a": 1.25}), ("gone", {"b": 3})):
        assert bundled.post("/datasets", {"name": name, "entries": rows}).status == 201
    browser.get(bundled.origin + "/?lang=constructor&dataset=constructor&temperature=0.005")
    until(browser, lambda: list(weights(browser)) == ["a"])
    assert (text(browser, "#exact"), text(browser, "#tau")) == ("1.25", "τ = 0.005")
    Select(browser.find_element(By.ID, "dataset")).select_by_value("faq")
    until(browser, lambda: list(weights(browser)) == [long])
    assert bundled.ask("DELETE", "/datasets/gone").status == 204
    Select(browser.find_element(By.ID, "dataset")).select_by_value("gone")
    until(browser, lambda: text(browser, "#status").startswith("There is no dataset “gone”"))
    assert not shown()
    browser.get(bundled.origin + "/?lang=en&dataset=gone&q=b")
    until(browser, lambda: text(browser, "#status").startswith("There is no dataset “gone”"))
    assert not shown()
    browser.get_log("browser")  # the one 404 that was asked for
    for name in ("faq", "constructor"):
        assert bundled.ask("DELETE", f"/datasets/{name}").status == 204


def test_a_key_too_long_to_ask_for_is_not_asked_for(browser: Chrome, bundled: Service) -> None:
    entries = {"a" * 4001: 1, "b": 2}
    assert bundled.post("/datasets", {"name": "long", "entries": entries}).status == 201
    browser.get(bundled.origin + "/?lang=en&dataset=long")
    until(browser, lambda: "“b”" in text(browser, "#reason"))
    assert bundled.ask("DELETE", "/datasets/long").status == 204


def test_no_letter_is_cut_in_half_and_none_moves_what_stands_beside_it(
    browser: Chrome, bundled: Service
) -> None:
    arabic = "\u0645\u0631\u062d\u0628\u0627"
    assert bundled.post("/datasets", {"name": "words", "entries": {"a": arabic, "b": "c"}}).json
    browser.get(bundled.origin + "/?lang=en&dataset=words&q=" + "😀" * 61)
    until(browser, lambda: "“" + "😀" * 59 + "…”" in text(browser, "#reason"))
    browser.find_element(By.ID, "steps-title").click()
    until(browser, lambda: browser.find_elements(By.CSS_SELECTOR, "#explanation bdi"))
    isolated = [each.text for each in browser.find_elements(By.CSS_SELECTOR, "#explanation bdi")]
    assert {arabic, "c", "value"} <= set(isolated)
    assert bundled.ask("DELETE", "/datasets/words").status == 204


def test_stored_numbers_are_shown_whole_and_marks_of_replacement_stay_text(
    browser: Chrome, bundled: Service
) -> None:
    rows = {"méxico": 126014024, "US$$ 5 $& $'": 1234567.89, "1984": 1949, "a": 0.1 + 0.2}
    rows["b"] = 1e-300
    assert bundled.post("/datasets", {"name": "gente", "entries": rows}).status == 201
    browser.get(bundled.origin + "/?lang=en&dataset=gente&q=méxico&temperature=0.01")
    until(browser, lambda: weights(browser))

    assert (text(browser, "#exact"), text(browser, "#matches .value")) == ("126,014,024",) * 2
    assert text(browser, "#blend .headline").startswith("126,014,024 ")
    ask(browser, "US$$ 5 $& $'")
    assert text(browser, "#exact") == "1,234,567.89"
    ask(browser, "1984")
    assert text(browser, "#exact") == "1949", "as years are written"
    ask(browser, "a")
    assert text(browser, "#exact") == "0.30000000000000004"
    ask(browser, "b")
    assert text(browser, "#exact") == "1E-300"
    assert bundled.ask("DELETE", "/datasets/gente").status == 204


def test_an_answer_says_how_far_to_trust_it_and_how_to_read_it(browser: Chrome) -> None:
    ask(browser, "nación")
    assert re.fullmatch(
        r"Probability that an answer is here at all: \d\d\.\d%\.", text(browser, "#trust")
    )
    assert "90% of the weight lies between 7 and 10" in text(browser, "#blend .headline")
    ask(browser, "qwxz 83 ##")
    assert text(browser, "#trust").startswith("Probably nothing here answers this.")
    ask(browser, "comida")
    assert text(browser, "#trust").startswith("Perhaps nothing here answers this.")

    browser.find_element(By.CSS_SELECTOR, ".help summary").click()
    assert "first at the probability" in text(browser, ".help p")
    browser.find_element(By.ID, "language").click()
    assert text(browser, "#trust").startswith("Quizá nada de aquí responda a esto.")
    assert "primero la probabilidad" in text(browser, ".help p")
    assert "el 90 % del peso" in text(browser, "#blend .headline")


def test_an_encoder_without_a_calibration_is_said_to_have_none(
    browser: Chrome, bundled: Service
) -> None:
    body = {"name": "azar", "entries": {"a": 1}, "encoder": "random"}
    assert bundled.post("/datasets", body).status == 201
    browser.get(bundled.origin + "/?lang=es&dataset=azar&q=a")
    until(browser, lambda: weights(browser))

    assert text(browser, "#trust").startswith("Con este encoder no se puede saber")
    assert text(browser, "#blend .axis") == "1", "one value has one end, and none is made up"
    assert "el 90 % del peso está en 1" in text(browser, "#blend .headline")
    assert bundled.ask("DELETE", "/datasets/azar").status == 204


def test_values_have_the_names_of_their_columns_and_a_stored_colour_its_numbers(
    browser: Chrome, bundled: Service
) -> None:
    rows = {"queso": {"precio": 7.8, "pasillo": "lácteos"}, "pera": {"precio": 2, "pasillo": None}}
    assert bundled.post("/datasets", {"name": "mercado", "entries": rows}).status == 201
    browser.get(bundled.origin + "/?lang=es&dataset=mercado&q=queso")
    until(browser, lambda: weights(browser))
    assert text(browser, "#exact").split("\n") == ["precio", "7,8", "pasillo", "lácteos"]
    values = [each.text for each in browser.find_elements(By.CSS_SELECTOR, "#matches .value")]
    assert values == ["precio: 7,8", "pasillo: lácteos", "precio: 2", "pasillo: sin valor"]

    browser.get(bundled.origin + "/?lang=en&dataset=colores&q=sea")
    until(browser, lambda: weights(browser))
    red, green, blue = bundled.get("/datasets/colores/entries/sea").json["values"]["rgb"]
    assert text(browser, "#exact") == f"{red}, {green}, {blue}"
    assert bundled.ask("DELETE", "/datasets/mercado").status == 204


def test_a_blend_of_little_of_the_weight_says_so_first_and_is_no_headline(
    browser: Chrome, bundled: Service
) -> None:
    def shown() -> list[str]:
        return text(browser, "#blend").replace("\u00a0", " ").split("\n")

    def style(selector: str, name: str) -> str:
        return browser.find_element(By.CSS_SELECTOR, selector).value_of_css_property(name)

    rows = {"queso": 9, "pan": 1, "sal": None}
    table = {key: {"precio": price} for key, price in rows.items()}
    assert bundled.post("/datasets", {"name": "mercado", "entries": table}).status == 201
    browser.get(bundled.origin + "/?lang=es&dataset=mercado&q=sal&temperature=0.05")
    until(browser, lambda: weights(browser))
    name, known = shown()[:2]
    assert name == "precio"
    assert re.fullmatch(r"El \d,\d % del peso tiene un valor\.", known)
    assert "el 90 % de ese peso está entre 1 y 9; mediana " in " ".join(shown())
    assert style("#blend .headline", "font-size") == style("body", "font-size") == "16px"
    assert style("#blend .headline", "color") == style("#blend .column", "color")
    assert re.search(r"precio: [\d,]+\. El \d,\d % del peso tiene un valor\.", said_aloud(browser))
    browser.find_element(By.CSS_SELECTOR, "#hand summary").click()
    until(browser, lambda: known in text(browser, "#hand-blend").replace("\u00a0", " "))
    assert style("#hand-blend .faint", "font-size") == "16px"

    browser.get(bundled.origin + "/?lang=en&dataset=mercado&q=queso&temperature=0.3")
    until(browser, lambda: weights(browser))
    assert re.fullmatch(r"\d\d\.\d% of the weight has a value\.", shown()[1])
    assert "90% of that weight lies between 1 and 9; median 9" in " ".join(shown())
    assert style("#blend .headline", "font-size") == "36px", "most of the weight has a value"
    shares = [0.49, 0.5, 0.9994, 0.9996]
    script = "return arguments[0].map((known) => isFaint({ known }))"
    assert browser.execute_script(script, shares) == [True, False, False, False]
    script = "return arguments[0].map((share) => known({ known: share }).length)"
    assert browser.execute_script(script, shares) == [1, 1, 1, 0], "and 100.0% needs no words"
    browser.find_element(By.ID, "steps-title").click()
    until(browser, lambda: browser.find_elements(By.CSS_SELECTOR, "#explanation p"))
    written = text(browser, "#explanation p")
    total, of, mean = re.fullmatch(r"precio: \((.*)\) / (\S+) = (\S+)", written).groups()
    terms = re.findall(r"(\S+) · (\d)", total)
    assert {value for _, value in terms} == {"9", "1"}
    assert sum(float(w) * float(v) for w, v in terms) / float(of) == pytest.approx(
        float(mean), abs=0.03
    )
    assert bundled.ask("DELETE", "/datasets/mercado").status == 204


def said_aloud(browser: Chrome) -> str:
    said = browser.find_element(By.ID, "spoken").get_property("textContent")
    return str(said).replace("\u00a0", " ")


def test_every_step_is_a_table_that_follows_the_answer(browser: Chrome) -> None:
    def rows() -> list[list[str]]:
        script = (
            "return [...document.querySelectorAll('#explanation tbody tr')]"
            ".map((row) => [...row.children].map((cell) => cell.textContent))"
        )
        found: list[list[str]] = browser.execute_script(script)
        return found

    shown = ask(browser, "país")
    browser.find_element(By.ID, "steps-title").send_keys(Keys.ENTER)
    until(browser, rows)
    assert [row[0] for row in rows()] == list(shown)
    for key, score, logit, exp, weight in rows():
        assert float(weight) == pytest.approx(shown[key], abs=0.0001)
        assert float(logit) == pytest.approx(float(score) / 0.1, abs=0.001)
        assert float(exp) == pytest.approx(shown[key] / max(shown.values()), abs=0.0001)
    facts = text(browser, "#explanation .facts").split("\n")
    assert facts[:2] == ["Tokens of the question", "país"]
    assert facts[-1] == browser.execute_script(
        "return number(arguments[0])", 1 / max(shown.values())
    )
    heads = browser.find_elements(By.CSS_SELECTOR, "#explanation thead [scope=col]")
    assert [each.text for each in heads][1:3] == ["cosine", "cosine/τ"]
    written = text(browser, "#explanation p")
    terms = re.findall(r"([0-9.]+) · (\d+)", written)
    assert [value for _, value in terms] == ["8", "10", "7", "5"]
    assert sum(float(w) * float(v) for w, v in terms) == pytest.approx(8.536, abs=0.005)
    assert written.startswith("valor: ") and written.endswith(" = 8.54")

    browser.find_element(By.ID, "where").send_keys("valor < 9", Keys.ENTER)
    until(browser, lambda: len(rows()) == 3)
    assert "Keys that the mask leaves out\n1" in text(browser, "#explanation .facts")
    browser.find_element(By.ID, "where").clear()
    ask(browser, "mascota")
    until(browser, lambda: rows()[0][0] == "perro")
    browser.find_element(By.ID, "language").click()
    assert "Tokens de la pregunta" in text(browser, "#explanation")
    assert rows()[0][2].count(",") == 1
    Select(browser.find_element(By.ID, "dataset")).select_by_value("traduccion")
    until(browser, lambda: "PERRO" in [row[0] for row in rows()])
    assert text(browser, "#explanation p").endswith(" → DOG"), "a label, which is no sum"
    Select(browser.find_element(By.ID, "dataset")).select_by_value("colores")
    until(browser, lambda: "las demás (claves: 939)" in [row[0] for row in rows()])
    browser.find_element(By.ID, "where").send_keys("rgb is missing", Keys.ENTER)
    until(browser, lambda: not rows() and text(browser, "#explanation"))
    assert "NaN" not in text(browser, "#explanation")
    browser.find_element(By.ID, "where").clear()


def test_a_wide_table_moves_inside_of_its_own_box(browser: Chrome) -> None:
    try:
        browser.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": 360, "height": 800, "deviceScaleFactor": 1, "mobile": True},
        )
        browser.find_element(By.ID, "steps-title").click()
        until(browser, lambda: browser.find_elements(By.CSS_SELECTOR, "#explanation table"))
        box = browser.find_element(By.CSS_SELECTOR, "#explanation .sideways")
        width = browser.execute_script("return document.documentElement.scrollWidth")
        inside = browser.execute_script(
            "return [arguments[0].scrollWidth, arguments[0].clientWidth]", box
        )
        box.send_keys(Keys.ARROW_RIGHT)
        until(browser, lambda: browser.execute_script("return arguments[0].scrollLeft", box) > 0)
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})

    assert width <= 360 and inside[0] > inside[1]
    assert box.accessible_name == "Every step, with its numbers"


def test_the_chosen_dataset_can_be_downloaded(browser: Chrome, bundled: Service) -> None:
    name = "año-2026"
    assert bundled.post("/datasets", {"name": name, "entries": {"b": 1, "c": 2}}).status == 201
    browser.get(bundled.origin + f"/?lang=es&dataset={name}&q=b")
    until(browser, lambda: weights(browser))
    assert text(browser, "#own") == "Cargar, descargar o borrar un conjunto"
    browser.find_element(By.ID, "own").click()
    offered = "CSV / CSV con coma decimal (Excel) / JSON Lines / Parquet"
    assert text(browser, "#download") == f"Descargar «año-2026» como {offered}"
    links = browser.find_elements(By.CSS_SELECTOR, "#download a")
    written = [str(each.get_dom_attribute("href")) for each in links]
    assert written[0] == "datasets/a%C3%B1o-2026/export?format=csv", "a proxy may have a prefix"
    tables = [bundled.get(f"/{address}") for address in written]
    assert [table.status for table in tables] == [200] * 4
    assert [table.text.splitlines()[1] for table in tables[:2]] == ["b,1", "b;1"]
    Select(browser.find_element(By.ID, "dataset")).select_by_value("paises")
    until(browser, lambda: "paises" in str(links[0].get_attribute("href")))
    assert bundled.ask("DELETE", "/datasets/a%C3%B1o-2026").status == 204


def test_a_form_is_empty_again_once_its_table_is_loaded(
    browser: Chrome, bundled: Service, tmp_path: Path
) -> None:
    fields = ("file", "name", "key", "attributes", "missing")
    first, second = tmp_path / "uno.csv", tmp_path / "dos.csv"
    for table in (first, second):
        table.write_text("cosa,precio,pasillo\npan,1,a\nsal,2,b\n", "utf-8")
    load = chosen(browser, first)
    name = browser.find_element(By.ID, "name")
    name.clear()
    name.send_keys("despensa")
    for field, typed in {"key": "cosa", "attributes": "pasillo", "missing": "x"}.items():
        browser.find_element(By.ID, field).send_keys(typed)
    load.click()
    until(browser, lambda: "Entries loaded: 2." in text(browser, "#loading"))

    assert [browser.find_element(By.ID, each).get_property("value") for each in fields] == [""] * 5
    browser.find_element(By.ID, "file").send_keys(str(second))
    assert name.get_property("value") == "dos"
    Select(browser.find_element(By.ID, "exists")).select_by_value("replace")
    until(browser, load.is_enabled)
    load.click()  # none has the name, so nothing is asked
    until(browser, lambda: bundled.get("/datasets/dos").status == 200)
    until(browser, lambda: "pasillo (texts)" in text(browser, "#loading"))
    for each in ("despensa", "dos"):
        assert bundled.ask("DELETE", f"/datasets/{each}").status == 204


def test_a_key_that_is_cut_is_shown_whole_when_it_is_pressed(
    browser: Chrome, bundled: Service
) -> None:
    long = "palabra " * 120
    assert bundled.post("/datasets", {"name": "largas", "entries": {long: 1, "b": 2}}).status == 201
    browser.get(bundled.origin + "/?lang=en&dataset=largas&q=palabra")
    until(browser, lambda: weights(browser))
    browser.find_element(By.CSS_SELECTOR, "#hand summary").click()
    for place in ("#matches", "#hand-weights"):
        keys = browser.find_elements(By.CSS_SELECTOR, f"{place} .key")
        cut, short = sorted(keys, key=lambda each: -each.size["height"])[:2]
        until(browser, lambda cut=cut: cut.get_attribute("aria-expanded") == "false")
        assert short.get_attribute("aria-expanded") is None
        height = cut.size["height"]
        cut.send_keys(Keys.ENTER)
        assert cut.size["height"] > 1.5 * height
        cut.send_keys(Keys.SPACE)
        assert cut.size["height"] == height
        cut.click()
        assert cut.size["height"] > 1.5 * height
        assert browser.switch_to.active_element == cut, "and not the field beside it"
    assert bundled.ask("DELETE", "/datasets/largas").status == 204


def test_a_wide_table_leaves_the_keys_in_sight(browser: Chrome, bundled: Service) -> None:
    names = [f"medida {number}" for number in range(12)]
    rows = {key: dict.fromkeys(names, place) for place, key in enumerate(("silla", "mesa"))}
    assert bundled.post("/datasets", {"name": "ancha", "entries": rows}).status == 201
    narrow = {key: {name: values[name] for name in names[:4]} for key, values in rows.items()}
    assert bundled.post("/datasets", {"name": "estrecha", "entries": narrow}).status == 201

    def seen(selector: str) -> list[str]:
        found = browser.find_elements(By.CSS_SELECTOR, selector)
        return [each.text for each in found if each.is_displayed()]

    browser.get(bundled.origin + "/?lang=es&dataset=ancha&q=silla")
    until(browser, lambda: weights(browser))
    others = browser.find_element(By.CSS_SELECTOR, "#blend summary")
    assert others.text == "Otras columnas: 8"
    assert seen("#blend h3") == names[:4]
    others.click()
    assert seen("#blend h3") == names
    browser.find_element(By.ID, "language").click()
    until(browser, lambda: seen("#blend summary") == ["Other columns: 8"])
    assert seen("#blend h3") == names, "what was unfolded stays so"

    browser.set_window_size(500, 900)
    try:
        row = browser.find_element(By.CSS_SELECTOR, ".match .values")
        until(browser, lambda: row.get_attribute("aria-expanded") == "false")
        height = row.size["height"]
        row.click()
        assert row.size["height"] > height
    finally:
        browser.set_window_size(1100, 1000)
    assert seen(".match:first-child .value") == [f"{name}: 0" for name in names]

    browser.get(bundled.origin + "/?lang=es&dataset=estrecha&q=silla")
    until(browser, lambda: weights(browser))
    assert seen("#blend summary") == seen(".match .values") == []
    assert seen("#blend h3") == names[:4]
    for each in ("ancha", "estrecha"):
        assert bundled.ask("DELETE", f"/datasets/{each}").status == 204


def test_a_long_text_is_set_as_text_to_be_read(browser: Chrome, bundled: Service) -> None:
    def size(selector: str) -> float:
        found = browser.find_element(By.CSS_SELECTOR, selector)
        return float(found.value_of_css_property("font-size").removesuffix("px"))

    long = "Open the settings, choose Security, and press the button that resets your password."
    rows = {"I forgot my password": long, "Where is it?": "Here."}
    assert bundled.post("/datasets", {"name": "help", "entries": rows}).status == 201
    browser.get(bundled.origin + "/?lang=en&dataset=help&q=Where+is+it%3F")
    until(browser, lambda: text(browser, "#exact") == "Here.")
    assert size("#blend .headline") == 36
    ask(browser, "I forgot my password")
    assert text(browser, "#exact") == text(browser, "#blend .headline") == long
    assert size("#exact > *") == size("#blend .headline") == 18
    assert bundled.ask("DELETE", "/datasets/help").status == 204


def test_on_a_narrow_screen_the_answers_stand_as_they_are_read(browser: Chrome) -> None:
    def top(selector: str) -> int:
        return int(browser.find_element(By.CSS_SELECTOR, selector).rect["y"])

    ask(browser, "méxico")
    assert top("#exact-title") == top("#soft-title")
    try:
        browser.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True},
        )
        assert top("#soft-title") < top("#exact") < top("#hand")
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def open_on_a_phone(browser: Chrome, *, height: int) -> None:
    """Open the page anew where it is 360 wide, and nothing moves by itself."""
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": 360, "height": height, "deviceScaleFactor": 1, "mobile": True},
    )
    still = [{"name": "prefers-reduced-motion", "value": "reduce"}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": still})
    browser.refresh()
    until(browser, lambda: weights(browser))


def is_in_view(browser: Chrome, place: str) -> bool:
    script = """
        const { top, bottom } = document.getElementById(arguments[0]).getBoundingClientRect();
        return 0 <= top && bottom <= innerHeight && top < bottom;
    """
    return bool(browser.execute_script(script, place))


def test_on_a_narrow_screen_what_is_said_of_a_load_or_a_condition_is_in_view(
    browser: Chrome, bundled: Service, tmp_path: Path
) -> None:
    table = tmp_path / "twice.csv"
    table.write_text("key,v\na,1\na,2\n")
    try:
        open_on_a_phone(browser, height=640)
        load = chosen(browser, table)
        for types, said in (("", "came on line 2 already"), ("v=blah", "columns")):
            field = browser.find_element(By.ID, "types")
            browser.execute_script("arguments[0].value = arguments[1]", field, types)
            browser.execute_script("arguments[0].scrollIntoView()", load)
            load.click()
            until(browser, lambda said=said: said in text(browser, "#loading").lower())
            until(browser, lambda: is_in_view(browser, "loading"))

        Select(browser.find_element(By.ID, "duplicates")).select_by_value("last")
        browser.execute_script("arguments[0].value = ''", field)
        browser.execute_script("arguments[0].scrollIntoView(false)", load)
        hold(browser, "options?.method === 'POST'")
        load.click()
        until(browser, lambda: held(browser))
        assert is_in_view(browser, "cancel")
        browser.execute_script("release()")
        until(browser, lambda: list(weights(browser)) == ["a"])
        until(browser, lambda: is_in_view(browser, "loading"))
        assert "Entries loaded: 1." in text(browser, "#loading")
        assert bundled.ask("DELETE", "/datasets/twice").status == 204
        Select(browser.find_element(By.ID, "dataset")).select_by_value("paises")
        until(browser, lambda: len(weights(browser)) == 4)

        browser.find_element(By.ID, "language").click()
        condition = browser.find_element(By.ID, "where")
        condition.send_keys("valor < 9.200", Keys.ENTER)
        until(browser, lambda: "9.200" in text(browser, "#status"))
        until(browser, lambda: is_in_view(browser, "status"))
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_who_types_a_weight_is_not_interrupted_by_an_answer(browser: Chrome) -> None:
    browser.find_element(By.CSS_SELECTOR, "#hand summary").click()
    until(browser, lambda: text(browser, "#hand-blend") == "8.54")
    field = browser.find_elements(By.CSS_SELECTOR, "#hand-weights input")[2]
    field.send_keys(Keys.CONTROL, "a", Keys.BACKSPACE)
    field.send_keys("9")
    before = weights(browser)
    browser.execute_script(
        "const slider = document.getElementById('temperature');"
        "slider.value = 0; slider.dispatchEvent(new Event('input'))"
    )
    until(browser, lambda: weights(browser) != before)
    browser.switch_to.active_element.send_keys("7")

    assert browser.switch_to.active_element == field
    fields = browser.find_elements(By.CSS_SELECTOR, "#hand-weights input")
    typed = [each.get_attribute("value") for each in fields]
    assert typed[2] == "97"
    assert typed[0] != "41", "the others are those of the new answer"


def test_on_a_narrow_screen_an_answer_that_was_asked_for_comes_into_view(browser: Chrome) -> None:
    def top() -> float:
        script = "return document.getElementById('result').getBoundingClientRect().top"
        return float(browser.execute_script(script))

    def to_the_top() -> None:
        browser.execute_script("scrollTo(0, 0)")
        assert top() > 500

    try:
        open_on_a_phone(browser, height=500)
        assert browser.execute_script("return scrollY") == 0, "nobody asked yet"
        to_the_top()
        ask(browser, "mascota")
        until(browser, lambda: 0 <= top() < 50)
        to_the_top()
        browser.find_element(By.XPATH, "//span[@id='examples']/button[.='country']").click()
        until(browser, lambda: 0 <= top() < 50)
        to_the_top()
        before = weights(browser)
        browser.execute_script(
            "const slider = document.getElementById('temperature');"
            "slider.value = 0; slider.dispatchEvent(new Event('input'))"
        )
        until(browser, lambda: weights(browser) != before)
        browser.execute_script("return new Promise((done) => setTimeout(done, 300))")
        assert browser.execute_script("return scrollY") == 0, "who moves it looks at it"
        field = browser.find_element(By.ID, "tolerance")
        browser.execute_script("arguments[0].value = 'x'; arguments[0].form.requestSubmit()", field)
        until(browser, lambda: text(browser, "#status").startswith("margin of error:"))
        says = "return document.getElementById('status').getBoundingClientRect().top"
        until(browser, lambda: browser.execute_script(says) < 400)
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_a_screen_reader_hears_the_answer_in_one_sentence(browser: Chrome) -> None:
    ask(browser, "país")
    nodes = browser.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    live = [
        node["backendDOMNodeId"]
        for node in nodes
        if any(each["name"] == "live" for each in node.get("properties", ()))
    ]
    spoken = browser.find_element(By.ID, "spoken")
    said = spoken.get_property("textContent")
    assert re.fullmatch(
        r"valor: 8\.\d+\. By exact lookup: nothing\. Probability that .*: [\d.]+%\.", str(said)
    )
    document = browser.execute_cdp_cmd("DOM.getDocument", {"depth": -1})["root"]["nodeId"]
    identify = partial(browser.execute_cdp_cmd, "DOM.querySelector")
    for selector, is_live in {"#spoken": True, "#status": True, "#matches": False}.items():
        node = identify({"nodeId": document, "selector": selector})
        there = browser.execute_cdp_cmd("DOM.describeNode", node)["node"]["backendNodeId"]
        assert (there in live) is is_live, selector
    slider = browser.find_element(By.ID, "temperature")
    assert slider.accessible_name == "Temperature τ, sharp – flat"
    assert slider.get_attribute("aria-valuetext") == text(browser, "#tau") == "τ = 0.1"
    assert browser.find_element(By.ID, "dataset").accessible_name == "in the dataset"


def test_bars_and_colours_are_seen_in_forced_colours_and_on_paper(
    browser: Chrome, bundled: Service
) -> None:
    def behind(selector: str) -> str:
        found = browser.find_element(By.CSS_SELECTOR, selector)
        return found.value_of_css_property("background-color").replace("rgba", "rgb")

    browser.get(bundled.origin + "/?lang=en&dataset=colores&q=sea")
    until(browser, lambda: weights(browser))
    colour = behind("#blend .swatch")
    features = [{"name": "forced-colors", "value": "active"}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    try:
        assert behind("#blend .swatch") == colour
        assert behind("#matches .fill") != behind("#matches .track")
        assert (
            browser.find_element(By.CSS_SELECTOR, "#ask .main").value_of_css_property(
                "border-top-style"
            )
            == "solid"
        )
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})

    browser.get(bundled.origin + "/?lang=en&dataset=traduccion&q=perro")
    until(browser, lambda: weights(browser))
    fill = browser.find_element(By.CSS_SELECTOR, "#matches .fill")
    parts = re.findall(r"\d+", fill.value_of_css_property("background-color"))[:3]
    printed = base64.b64decode(browser.execute_cdp_cmd("Page.printToPDF", {})["data"])
    assert [round(int(part) / 255, 2) for part in parts] in fills(printed)


def fills(pdf: bytes) -> list[list[float]]:
    """Return every colour that something on the pages of a PDF is filled with."""
    found = []
    for packed in re.findall(rb"stream\r?\n(.*?)endstream", pdf, re.DOTALL):
        try:
            drawn = zlib.decompress(packed)
        except zlib.error:  # a font, or another thing that is not drawn
            continue
        for colour in re.findall(rb"([\d.]+) ([\d.]+) ([\d.]+) rg\b", drawn):
            found.append([round(float(part), 2) for part in colour])
    return found


def test_a_question_that_was_typed_is_asked_of_the_dataset_that_is_chosen_then(
    browser: Chrome,
) -> None:
    field = browser.find_element(By.ID, "q")
    field.clear()
    field.send_keys("the colour of grass")
    Select(browser.find_element(By.ID, "dataset")).select_by_value("colores")
    until(browser, lambda: "“the colour of grass”" in text(browser, "#reason"))
    ask(browser, "wet sand")
    Select(browser.find_element(By.ID, "dataset")).select_by_value("traduccion")
    until(browser, lambda: "“GATO”" in text(browser, "#reason"))


def test_back_and_forward_go_through_the_questions(browser: Chrome, bundled: Service) -> None:
    ask(browser, "animal")
    slider = browser.find_element(By.ID, "temperature")
    slider.send_keys(Keys.END)
    until(browser, lambda: "temperature=" in browser.current_url)
    ask(browser, "country")
    browser.find_element(By.ID, "auto").click()
    Select(browser.find_element(By.ID, "dataset")).select_by_value("colores")
    until(browser, lambda: "“tropical sea”" in text(browser, "#reason"))
    browser.back()
    until(browser, lambda: "“country”" in text(browser, "#reason"))
    assert Select(browser.find_element(By.ID, "dataset")).first_selected_option.text == "paises"
    assert browser.find_element(By.ID, "auto").is_selected()
    browser.back()
    until(browser, lambda: "“animal”" in text(browser, "#reason"))
    assert not browser.find_element(By.ID, "auto").is_selected()
    browser.forward()
    until(browser, lambda: "“country”" in text(browser, "#reason"))

    assert bundled.post("/datasets", {"name": "brief", "entries": {"b": 1}}).status == 201
    browser.get(bundled.origin + "/?lang=en&dataset=brief&q=b")
    until(browser, lambda: list(weights(browser)) == ["b"])
    Select(browser.find_element(By.ID, "dataset")).select_by_value("paises")
    until(browser, lambda: len(weights(browser)) == 4)
    assert bundled.ask("DELETE", "/datasets/brief").status == 204
    browser.back()
    until(browser, lambda: text(browser, "#status").startswith("There is no dataset “brief”"))
    assert not browser.find_element(By.ID, "result").is_displayed()


def test_going_back_leaves_a_dataset_that_is_still_being_chosen(
    browser: Chrome, bundled: Service
) -> None:
    assert bundled.post("/datasets", {"name": "brief", "entries": {"b": 1}}).status == 201
    browser.refresh()
    until(browser, lambda: weights(browser))
    ask(browser, "animal")
    ask(browser, "country")
    hold(browser, "path.includes('brief/entries')")
    Select(browser.find_element(By.ID, "dataset")).select_by_value("brief")
    until(browser, lambda: held(browser))
    browser.execute_script("history.back(); addEventListener('popstate', release)")
    until(browser, lambda: "“animal”" in text(browser, "#reason"))

    browser.forward()
    until(browser, lambda: "“country”" in text(browser, "#reason"))
    assert bundled.ask("DELETE", "/datasets/brief").status == 204


def test_a_dataset_chosen_while_the_list_is_on_its_way_stays_chosen(browser: Chrome) -> None:
    hold(browser, "path === 'datasets'")
    browser.execute_script(
        "const before = relist; relist = async () => { await before(); window.relisted = true; };"
    )
    browser.find_element(By.ID, "where").send_keys("nope < 3", Keys.ENTER)
    until(browser, lambda: held(browser))
    Select(browser.find_element(By.ID, "dataset")).select_by_value("colores")
    until(browser, lambda: "“tropical sea”" in text(browser, "#reason"))
    browser.execute_script("release()")
    until(browser, lambda: browser.execute_script("return window.relisted"))
    assert dataset_of(browser) == "colores"
    assert "“tropical sea”" in text(browser, "#reason")
    assert browser.find_element(By.ID, "result").is_displayed()
    assert text(browser, "#status") == ""


def test_a_dataset_that_was_loaded_elsewhere_is_in_the_list_when_one_comes_back(
    browser: Chrome, bundled: Service
) -> None:
    def listed() -> list[str]:
        return list(browser.execute_script("return [...$('dataset').options].map((o) => o.text)"))

    def come_back() -> None:
        browser.execute_script("dispatchEvent(new Event('focus'))")

    assert bundled.post("/datasets", {"name": "later", "entries": {"b": 1}}).status == 201
    assert "later" not in listed()
    come_back()
    until(browser, lambda: "later" in listed())
    assert dataset_of(browser) == "paises" and len(weights(browser)) == 4

    Select(browser.find_element(By.ID, "dataset")).select_by_value("later")
    until(browser, lambda: list(weights(browser)) == ["b"])
    assert bundled.ask("DELETE", "/datasets/later").status == 204
    come_back()
    browser.execute_script("return catchUp()")
    assert dataset_of(browser) == "later" and list(weights(browser)) == ["b"]


def test_the_language_chosen_stays_and_what_was_said_is_said_in_it(
    browser: Chrome, bundled: Service
) -> None:
    browser.find_element(By.ID, "language").click()
    browser.refresh()
    until(browser, lambda: weights(browser))
    assert browser.find_element(By.TAG_NAME, "html").get_attribute("lang") == "es"

    browser.get(bundled.origin + "/?lang=en&dataset=nowhere")
    until(browser, lambda: text(browser, "#status").startswith("There is no dataset"))
    browser.find_element(By.ID, "language").click()
    assert text(browser, "#status").startswith("No hay ningún conjunto que se llame «nowhere»")


@pytest.mark.parametrize(
    ("address", "spoken", "language"),
    [
        ("/", ["ca", "es"], "es"),
        ("/", ["gl-ES", "es-ES", "en"], "es"),
        ("/", ["en-GB", "es"], "en"),
        ("/", ["fr"], "en"),
        ("/?lang=ES", ["en"], "es"),
        ("/?lang=fr", ["es-MX"], "es"),
    ],
)
def test_the_language_is_the_first_wanted_that_the_page_has(
    browser: Chrome, bundled: Service, address: str, spoken: list[str], language: str
) -> None:
    source = f"Object.defineProperty(navigator, 'languages', {{ value: {json.dumps(spoken)} }})"
    with opened_with(browser, source, bundled.origin + address):
        assert browser.find_element(By.TAG_NAME, "html").get_attribute("lang") == language


def test_what_somebody_else_deletes_or_replaces_is_shown_as_it_is_now(
    browser: Chrome, bundled: Service
) -> None:
    def put(entries: dict[str, object]) -> None:
        bundled.ask("DELETE", "/datasets/brief")
        assert bundled.post("/datasets", {"name": "brief", "entries": entries}).status == 201

    put({"b": {"precio": 1}})
    browser.get(bundled.origin + "/?lang=en&dataset=brief&q=b")
    until(browser, lambda: weights(browser))
    price = f"{UNDERSTOOD}; columns: precio (numbers)"
    assert text(browser, "#columns") == price
    put({"c": {"peso": 2, "nota": "x"}})
    browser.find_element(By.ID, "q").send_keys(Keys.ENTER)
    both = f"{UNDERSTOOD}; columns: peso (numbers), nota (texts)"
    until(browser, lambda: text(browser, "#columns") == both)
    until(browser, lambda: list(weights(browser)) == ["c"])
    assert text(browser, "#examples") == "c"

    put({"b": {"precio": 1}})
    browser.find_element(By.ID, "where").send_keys("peso > 1", Keys.ENTER)
    until(browser, lambda: text(browser, "#columns") == price)
    assert "there is no column 'peso'" in text(browser, "#status")

    assert bundled.ask("DELETE", "/datasets/brief").status == 204
    browser.find_element(By.ID, "q").send_keys(Keys.ENTER)
    until(browser, lambda: text(browser, "#status").startswith("There is no dataset “brief”"))
    dataset = Select(browser.find_element(By.ID, "dataset"))
    until(browser, lambda: dataset_of(browser) == "paises")
    assert "brief" not in [each.text for each in dataset.options]
    assert browser.find_element(By.ID, "where").get_property("value") == ""
    browser.get_log("browser")  # the 404 that was asked for


def test_what_the_service_says_in_english_is_marked_as_english(
    browser: Chrome, bundled: Service
) -> None:
    browser.get(bundled.origin + "/?lang=es&dataset=paises&q=x&where=prize+%3C+5")
    until(browser, lambda: "there is no column 'prize'" in text(browser, "#status"))
    heading = text(browser, "#status").split("\n")[0]
    assert heading.endswith("en lo que has escrito. El servicio lo explica en inglés:")
    marked = browser.find_element(By.CSS_SELECTOR, "#status [lang=en]")
    assert marked.text.startswith("character 1")
    assert "\nsolo las entradas donde: character 1" in text(browser, "#status")


# What the page itself never asks for, and what it has a sentence of its own for, in both languages.
UNMET = "invalid-key unknown-entry wrong-value malformed-request unsupported-content no-datasets"
UNMET += " condition-failed untrusted-host cannot-listen"
OWN = "unknown-dataset dataset-exists unknown-job job-cancelled"


def test_every_problem_that_the_page_may_meet_is_headed_in_spanish(browser: Chrome) -> None:
    headed = browser.execute_script("return TEXTS.es.problems")
    met = {row.slug for row in TABLE} - {*UNMET.split(), *OWN.split()}

    assert headed.keys() == met
    assert all(sentence.endswith(".") for sentence in headed.values())


def test_a_table_is_said_as_it_was_read_and_can_be_loaded_again(
    browser: Chrome, bundled: Service, tmp_path: Path
) -> None:
    table = tmp_path / "tarifa.csv"
    table.write_text("precio,artículo\n1,pan\n2,sal\n", "utf-8")
    load = chosen(browser, table)
    load.click()
    said = "Entries loaded: 2. Column of keys: artículo. Others: precio (numbers)."
    until(browser, lambda: text(browser, "#loading") == said)
    language = browser.find_element(By.ID, "language")
    language.click()
    assert text(browser, "#loading").endswith("Las demás: precio (números).")
    language.click()

    table.write_text("precio,artículo\n1,pan\n3,sal\n4,azúcar\n", "utf-8")
    browser.find_element(By.ID, "file").send_keys(str(table))
    until(browser, load.is_enabled)
    load.click()
    until(browser, lambda: "replace it, or add the rows to it" in text(browser, "#loading"))
    Select(browser.find_element(By.ID, "exists")).select_by_value("replace")
    until(browser, load.is_enabled)
    load.click()
    question = WebDriverWait(browser, PATIENCE).until(alert_is_present())
    lost = "What it holds now cannot be brought back."
    assert question.text == f"Replace the dataset “tarifa” (entries: 2)? {lost}"
    question.dismiss()
    until(browser, lambda: text(browser, "#loading") == "Cancelled; nothing was loaded.")
    assert bundled.get("/datasets/tarifa/entries/sal").json["values"] == {"precio": 2}
    until(browser, load.is_enabled)
    load.click()
    WebDriverWait(browser, PATIENCE).until(alert_is_present()).accept()
    until(browser, lambda: "Entries loaded: 3." in text(browser, "#loading"))
    until(browser, lambda: set(weights(browser)) == {"pan", "sal", "azúcar"})
    exists = browser.find_element(By.ID, "exists")
    assert exists.get_property("value") == "error", "it is not to be forgotten"
    assert bundled.get("/datasets/tarifa/entries/sal").json["values"] == {"precio": 3}

    table.write_text("precio,artículo\n9,pan\n5,aceite\n", "utf-8")
    browser.find_element(By.ID, "file").send_keys(str(table))
    Select(exists).select_by_value("append")
    until(browser, load.is_enabled)
    load.click()  # nothing is lost, so nothing is asked
    until(browser, lambda: set(weights(browser)) == {"pan", "sal", "azúcar", "aceite"})
    stored = bundled.get("/datasets/tarifa/export?format=csv").text
    assert stored.split() == ["artículo,precio", "pan,9", "sal,3", "azúcar,4", "aceite,5"]
    assert exists.get_property("value") == "error"
    browser.get_log("browser")  # the one 409 that was asked for
    assert bundled.ask("DELETE", "/datasets/tarifa").status == 204


def test_a_dataset_is_deleted_when_one_is_sure(browser: Chrome, bundled: Service) -> None:
    assert bundled.post("/datasets", {"name": "brief", "entries": {"b": 1, "c": 2}}).status == 201
    browser.get(bundled.origin + "/?lang=es&dataset=brief&q=b")
    until(browser, lambda: weights(browser))
    browser.find_element(By.ID, "own").click()
    delete = browser.find_element(By.ID, "delete")
    assert delete.text == "Borrar el conjunto «brief»…"
    browser.execute_script("$('delete').focus(); $('delete').click(); $('delete').click()")
    question = WebDriverWait(browser, PATIENCE).until(alert_is_present())
    assert question.text == "¿Borrar el conjunto «brief» (entradas: 2)? No se podrá recuperar."
    question.dismiss()
    until(browser, delete.is_enabled)
    assert focused(browser) == "delete"
    assert bundled.get("/datasets/brief").json["entries"] == 2
    browser.find_element(By.ID, "language").click()
    delete.click()
    question = WebDriverWait(browser, PATIENCE).until(alert_is_present())
    assert question.text == "Delete the dataset “brief” (entries: 2)? It cannot be brought back."
    question.accept()

    until(browser, lambda: text(browser, "#loading") == "Deleted: brief.")
    assert bundled.get("/datasets/brief").status == 404
    until(browser, lambda: set(weights(browser)) == {"méxico", "alemania", "inglaterra", "perro"})
    left = [each.text for each in Select(browser.find_element(By.ID, "dataset")).options]
    assert "brief" not in left and delete.text == "Delete the dataset “paises”…"

    assert bundled.post("/datasets", {"name": "brief", "entries": {"b": 1}}).status == 201
    browser.get(bundled.origin + "/?lang=en&dataset=brief&q=b")
    until(browser, lambda: weights(browser))
    hold(browser, "options?.method === 'DELETE'")
    browser.execute_script("$('delete').click()")
    WebDriverWait(browser, PATIENCE).until(alert_is_present()).accept()
    until(browser, lambda: held(browser))
    assert bundled.ask("DELETE", "/datasets/brief").status == 204
    Select(browser.find_element(By.ID, "dataset")).select_by_value("paises")
    browser.find_element(By.ID, "own").click()
    browser.execute_script("release()")
    until(browser, lambda: text(browser, "#loading").startswith("There is no dataset “brief”"))
    until(browser, lambda: len(weights(browser)) == 4)
    offered = "return [...$('dataset').options].map((option) => option.value)"
    until(browser, lambda: "brief" not in browser.execute_script(offered))
    browser.get_log("browser")  # the one 404 that was asked for


def test_what_fails_in_the_same_words_again_is_said_again(browser: Chrome) -> None:
    browser.find_element(By.ID, "own").click()
    browser.execute_script(
        "window.fetch = async () => { throw new TypeError('no network'); };"
        "said = [];"
        "const line = document.getElementById('loading');"
        "new MutationObserver(() => { if (line.textContent) said.push(line.textContent); })"
        ".observe(line, { childList: true });"
    )
    for times in (1, 2):
        browser.find_element(By.ID, "delete").click()
        until(browser, lambda: browser.find_element(By.ID, "delete").is_enabled())

        said = browser.execute_script("return said")
        assert said == times * ["The service does not answer."]


def test_a_load_that_has_begun_is_not_said_to_wait(browser: Chrome) -> None:
    progress = (
        "drawProgress({ state: arguments[0], progress: null });"
        "return document.getElementById('loading').textContent"
    )
    assert browser.execute_script(progress, "queued") == "Waiting its turn…"
    assert browser.execute_script(progress, "running") == "Reading…"


def test_without_datasets_there_is_one_to_load_and_none_to_delete(
    started_browser: Chrome, tmp_path: Path
) -> None:
    table = tmp_path / "next.csv"
    table.write_text("key,value\na,1\n")
    with Service(tmp_path / "store", SOFTDICT_BUNDLED="0", SOFTDICT_ENCODER="random") as service:
        assert service.post("/datasets", {"name": "last", "entries": {"b": 1}}).status == 201
        started_browser.get(service.origin + "/?lang=en")
        until(started_browser, lambda: weights(started_browser))
        load, delete = chosen(started_browser, table), started_browser.find_element(By.ID, "delete")
        delete.click()
        WebDriverWait(started_browser, PATIENCE).until(alert_is_present()).accept()
        until(started_browser, lambda: text(started_browser, "#status").startswith("There are no"))

        assert not started_browser.find_element(By.ID, "result").is_displayed()
        assert not started_browser.find_element(By.ID, "examples").is_displayed()
        assert not delete.is_displayed()
        assert focused(started_browser) == "loading"
        load.click()
        until(started_browser, lambda: list(weights(started_browser)) == ["a"])
        assert delete.text == "Delete the dataset “next”…"
        assert text(started_browser, "#status") == ""


def test_a_load_is_asked_after_until_it_is_known_what_became_of_it(
    started_browser: Chrome, tmp_path: Path
) -> None:
    def loading(words: str) -> None:
        until(started_browser, lambda: words in text(started_browser, "#loading"))

    table = tmp_path / "long.csv"
    table.write_text("key,value\n" + "".join(f"row number {i},{i}\n" for i in range(40_000)))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    with Service(tmp_path / "store", SOFTDICT_PORT=port) as first:
        first.until("/readyz")
        started_browser.get(first.origin + "/?lang=en")
        until(started_browser, lambda: weights(started_browser))
        load = chosen(started_browser, table)
        load.click()
        loading("Encoding")
        live = started_browser.find_element(By.ID, "loading").get_attribute("aria-live")
        first.stop(signal.SIGKILL)
        loading("The service does not answer.")
    with Service(tmp_path / "store", SOFTDICT_PORT=port):
        loading("If the table is not among the datasets, load it again")
        assert load.is_enabled()
        started_browser.get("about:blank")

    assert live == "off", "a screen reader is not told every figure of it"


# No request is answered, until the test says that it is over.
OUTAGE = """
const answered = window.fetch;
window.down = true;
window.refused = 0;
window.fetch = (...asked) => {
  if (!down) return answered(...asked);
  refused += 1;
  return Promise.reject(TypeError());
};
"""


def test_a_page_that_was_opened_during_an_outage_asks_when_it_is_over(
    browser: Chrome, bundled: Service
) -> None:
    with opened_with(browser, OUTAGE, bundled.origin + "/?lang=en"):
        until(browser, lambda: text(browser, "#status") == "The service does not answer.")
        refused = browser.execute_script("return refused")
        field = browser.find_element(By.ID, "q")
        field.send_keys("mascota", Keys.ENTER)
        until(browser, lambda: browser.execute_script("return refused") > refused)
        until(browser, lambda: text(browser, "#status") == "The service does not answer.")
        browser.execute_script("window.down = false")
        field.send_keys(Keys.ENTER)
        until(browser, lambda: "“mascota”" in text(browser, "#reason"))

    assert text(browser, "#status") == ""
    assert text(browser, "#examples").startswith("país")
    assert text(browser, "#columns") == f"{UNDERSTOOD}; columns: valor (numbers)"


def test_what_was_loaded_stays_said_though_the_list_cannot_be_had(
    browser: Chrome, bundled: Service, tmp_path: Path
) -> None:
    table = tmp_path / "nueva.csv"
    table.write_text("cosa,precio\npan,1\n", "utf-8")
    load = chosen(browser, table)
    browser.execute_script(
        "const answered = window.fetch;"
        "window.fetch = (url, how) => (/datasets$/.test(url) && how?.method !== 'POST'"
        " ? Promise.reject(TypeError()) : answered(url, how));"
    )
    load.click()
    until(browser, lambda: text(browser, "#status") == "The service does not answer.")
    assert text(browser, "#loading").startswith("Entries loaded: 1.")
    assert bundled.ask("DELETE", "/datasets/nueva").status == 204


def test_after_an_outage_there_are_examples_again(browser: Chrome) -> None:
    ask(browser, "país")
    browser.execute_script(OUTAGE)
    Select(browser.find_element(By.ID, "dataset")).select_by_value("traduccion")
    until(browser, lambda: text(browser, "#status") == "The service does not answer.")
    assert text(browser, "#examples") == ""
    browser.execute_script("window.down = false")
    browser.find_element(By.ID, "q").send_keys(Keys.ENTER)

    until(browser, lambda: text(browser, "#examples").startswith("GATO"))
    assert text(browser, "#status") == ""


def test_an_empty_question_is_not_passed_over_in_silence(browser: Chrome) -> None:
    field = browser.find_element(By.ID, "q")
    field.clear()
    browser.find_element(By.CSS_SELECTOR, "#ask .main").click()

    assert browser.switch_to.active_element.get_attribute("id") == "q"
    assert field.get_property("validationMessage")
    field.send_keys("   ", Keys.ENTER)
    assert field.get_property("validationMessage"), "spaces ask nothing either"


def test_what_is_typed_while_the_service_starts_is_asked_then(
    browser: Chrome, bundled: Service
) -> None:
    with opened_with(browser, STARTING, bundled.origin + "/?lang=en"):
        field = browser.find_element(By.ID, "q")
        until(browser, lambda: focused(browser) == "q")  # or the console says it came too late
        field.send_keys("mascota", Keys.ENTER)
        until(browser, lambda: browser.execute_script("return tries") > 1)
        assert text(browser, "#status").startswith("The service cannot answer now.")
        browser.execute_script("said = document.getElementById('status').firstChild")
        until(browser, lambda: browser.execute_script("return tries") > 3)
        unchanged = "return document.getElementById('status').firstChild === said"
        assert browser.execute_script(unchanged), "a screen reader hears it once"
        browser.execute_script("opened = true")
        until(browser, lambda: "“mascota”" in text(browser, "#reason"))

    assert field.get_property("value") == "mascota"


# The service as it starts, for as long as the test wants.
STARTING = """
var tries = 0, opened = false, said;
const answered = window.fetch;
window.fetch = (path, options) => {
  if (path !== "readyz" || opened) return answered(path, options);
  tries += 1;
  const problem = { type: "/problems/not-ready", detail: "creating the bundled datasets" };
  return Promise.resolve(new Response(JSON.stringify(problem), { status: 503 }));
};
"""


@pytest.mark.parametrize("sent", [b"<h1>Bad Gateway", b'{"message": "Bad Gateway"}'])
def test_what_a_proxy_sends_for_the_service_is_no_answer(
    started_browser: Chrome, sent: bytes
) -> None:
    class Proxy(SimpleHTTPRequestHandler):
        """The page's files, and for all else what a proxy says while the service is gone."""

        def do_GET(self) -> None:
            if self.path.startswith("/page/"):
                super().do_GET()
                return
            page = self.path.startswith("/?")
            body = (ROOT / "service/page/index.html").read_bytes() if page else sent
            self.send_response(200 if page else 502)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    handler = partial(Proxy, directory=str(ROOT / "service"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        started_browser.get(f"http://127.0.0.1:{server.server_port}/?lang=es")
        until(started_browser, lambda: text(started_browser, "#status"))
        said = text(started_browser, "#status")
        started_browser.find_element(By.ID, "language").click()
        in_english = text(started_browser, "#status")
        started_browser.get("about:blank")
        server.shutdown()

    assert (said, in_english) == ("El servicio no responde.", "The service does not answer.")


def test_it_works_behind_a_proxy_under_a_prefix(
    started_browser: Chrome, bundled: Service, tmp_path: Path
) -> None:
    class Proxy(SimpleHTTPRequestHandler):
        """Hands on what stands under /dict/, and keeps the Host header, as a proxy should."""

        def do_GET(self) -> None:
            found = self.path.startswith("/dict/")
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            path = self.path.removeprefix("/dict") if found else "/nowhere"
            reply = bundled.ask(self.command, path, body, dict(self.headers))
            self.send_response_only(reply.status)
            for name in ("Content-Type", "Content-Security-Policy", "Content-Length"):
                self.send_header(name, reply.headers[name])
            self.end_headers()
            self.wfile.write(reply.body)

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, format: str, *args: object) -> None:
            pass

    browser = started_browser
    table = tmp_path / "proxied.csv"
    table.write_text("key,value\nuno,1\ndos,2\n", "utf-8")
    with ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        here = f"http://127.0.0.1:{server.server_port}/dict/"
        browser.get(here + "?lang=en")
        until(browser, lambda: weights(browser))
        weighed = ask(browser, "country")
        address = browser.current_url
        steps = browser.find_element(By.ID, "steps").get_attribute("href")
        chosen(browser, table).click()
        until(browser, lambda: "uno" in weights(browser))
        browser.get(here + "docs")
        healthz = "#operations-Service-service_healthz"
        for selector in (f"{healthz} button", ".try-out__btn", ".execute"):
            until(browser, partial(browser.find_elements, By.CSS_SELECTOR, selector))
            browser.find_element(By.CSS_SELECTOR, selector).click()
        answer = f"{healthz} .live-responses-table tbody .response-col_status"
        until(browser, lambda: browser.find_elements(By.CSS_SELECTOR, answer))
        status = text(browser, answer)
        browser.get("about:blank")
        server.shutdown()

    assert next(iter(weighed)) in ("alemania", "inglaterra", "méxico")
    assert address.startswith(here + "?") and (steps or "").startswith(here + "search?")
    assert status.split()[0] == "200"


def test_everything_is_reached_by_keyboard_in_reading_order(browser: Chrome) -> None:
    browser.execute_script("document.querySelector('nav a').focus()")
    seen = []
    for _ in range(12):
        browser.switch_to.active_element.send_keys(Keys.TAB)
        seen.append(browser.switch_to.active_element.get_attribute("id"))

    order = ["language", "q", "dataset", "where", "tolerance", "auto", "temperature"]
    assert [each for each in seen if each in order] == order


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_contrast_and_nothing_overflows_a_narrow_screen(
    browser: Chrome, scheme: str
) -> None:
    try:
        browser.execute_cdp_cmd(
            "Emulation.setEmulatedMedia",
            {"features": [{"name": "prefers-color-scheme", "value": scheme}]},
        )
        browser.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": 360, "height": 800, "deviceScaleFactor": 1, "mobile": True},
        )
        ask(browser, "país")
        width = browser.execute_script("return document.documentElement.scrollWidth")
        worst = browser.execute_script(CONTRAST)
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})

    assert width <= 360
    assert worst[0] >= 4.5, worst  # WCAG 2.2, 1.4.3, level AA


@pytest.mark.parametrize("width", [320, 360])
def test_nothing_overflows_a_narrow_screen_in_large_letters(browser: Chrome, width: int) -> None:
    metrics = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    larger = "document.documentElement.style.fontSize = '150%'"
    size = (
        "const slider = document.querySelector('.slider');"
        "return [document.documentElement.scrollWidth, slider.scrollWidth - slider.clientWidth]"
    )
    try:
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        browser.find_element(By.ID, "language").click()
        browser.execute_script(larger)
        found = browser.execute_script(size)
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})

    assert found == [width, 0]


def test_a_phone_is_told_to_leave_what_is_typed_in_small_letters(browser: Chrome) -> None:
    script = (
        "return [...document.querySelectorAll('form input:is(:not([type]), [type=text], #q)')]"
        ".map((field) => field.autocapitalize)"
    )

    assert browser.execute_script(script) == ["none"] * 9


def test_no_field_is_small_enough_for_a_phone_to_come_nearer_to_it(browser: Chrome) -> None:
    script = (
        "return [...document.querySelectorAll('input, select')]"
        ".map((field) => parseFloat(getComputedStyle(field).fontSize))"
    )

    assert min(browser.execute_script(script)) >= 16  # px; below, Safari does


def test_names_of_one_long_word_are_broken_on_a_narrow_screen(
    browser: Chrome, bundled: Service
) -> None:
    long = "precio_de_venta_al_publico_con_impuestos_incluidos_por_unidad"
    rows = {f"{long}_{i}": {long: i, f"{long}_b": "sí"} for i in range(2)}
    assert bundled.post("/datasets", {"name": "x" * 100, "entries": rows}).status == 201
    try:
        browser.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": 360, "height": 800, "deviceScaleFactor": 1, "mobile": True},
        )
        browser.get(f"{bundled.origin}/?lang=es&dataset={'x' * 100}&q={long}_1")
        until(browser, lambda: weights(browser))
        for summary in browser.find_elements(By.CSS_SELECTOR, "#hand summary, #own"):
            summary.click()
        until(browser, lambda: text(browser, "#hand-blend"))
        width = browser.execute_script("return document.documentElement.scrollWidth")
        box = browser.find_element(By.ID, "skip").rect
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})

    assert width <= 360
    assert box["width"] == box["height"], "beside words that take two lines"
    assert bundled.ask("DELETE", f"/datasets/{'x' * 100}").status == 204


# The least contrast of any text with what is behind it, and the text.
CONTRAST = """
const parts = (colour) => colour.match(/[\\d.]+/g).map(Number);
const light = (colour) => {
  const [r, g, b] = parts(colour).map((part) => part / 255)
    .map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const behind = (element) => {
  for (let each = element; each; each = each.parentElement) {
    const colour = getComputedStyle(each).backgroundColor;
    if (parts(colour).length < 4 || parts(colour)[3] > 0) return colour;
  }
  return "rgb(255, 255, 255)";
};
let worst = [99, ""];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const element = walker.currentNode.parentElement;
  if (!walker.currentNode.data.trim() || !element.checkVisibility()) continue;
  const [a, b] = [light(getComputedStyle(element).color), light(behind(element))];
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (ratio < worst[0]) worst = [ratio, walker.currentNode.data];
}
return worst;
"""


def test_a_dataset_s_long_name_leaves_the_form_on_one_row(
    browser: Chrome, bundled: Service
) -> None:
    long = "n" * 100
    assert bundled.post("/datasets", {"name": long, "entries": {"a": 1}}).status == 201
    try:
        browser.get(bundled.origin + "/?lang=en&q=país")
        until(browser, lambda: weights(browser))
        tops = {browser.find_element(By.ID, name).rect["y"] for name in ("q", "dataset")}
    finally:
        assert bundled.ask("DELETE", f"/datasets/{long}").status == 204

    assert len(tops) == 1


@pytest.mark.parametrize(
    ("given", "shown"),
    [("0.12345", "0.123"), ("0,12345", "0.123"), ("sqrt_d", "19.6"), ("effective_keys:2", None)],
)
def test_a_temperature_of_the_address_is_asked_as_it_stands_there(
    browser: Chrome, bundled: Service, given: str, shown: str | None
) -> None:
    address = {"lang": "en", "dataset": "paises", "q": "país", "temperature": given}
    browser.get(f"{bundled.origin}/?{urlencode(address)}")
    until(browser, lambda: weights(browser))

    own = address | {"temperature": given.replace(",", ".")}
    del own["lang"]
    answer = bundled.get(f"/search?{urlencode(own)}").json
    wanted = {each["key"]: each["weight"] for each in answer["matches"]}
    assert weights(browser) == pytest.approx(wanted, abs=1e-6)
    assert urlencode({"temperature": own["temperature"]}) in browser.current_url
    tau = answer["attention"]["temperature"]
    assert text(browser, "#tau") == f"τ = {shown or format(tau, '.3g')}"
    assert not browser.find_element(By.ID, "auto").is_selected()

    browser.find_element(By.ID, "temperature").send_keys(Keys.HOME)
    until(browser, lambda: weights(browser) != pytest.approx(wanted, abs=1e-6))
    assert urlencode({"temperature": own["temperature"]}) not in browser.current_url


def test_a_temperature_of_the_address_that_cannot_be_is_refused_in_words(
    browser: Chrome, bundled: Service
) -> None:
    browser.get(bundled.origin + "/?lang=en&dataset=paises&q=país&temperature=-1")
    until(browser, lambda: text(browser, "#status"))

    assert "a number must lie between 0.001 and 1000" in text(browser, "#status")
    assert text(browser, "#tau") == "τ = -1"


def test_with_an_emptied_question_the_answer_that_is_shown_can_still_be_looked_at(
    browser: Chrome, bundled: Service
) -> None:
    browser.get(bundled.origin + "/?lang=en&dataset=colores&q=azul marino")
    until(browser, lambda: len(weights(browser)) == 10)
    browser.find_element(By.ID, "q").clear()
    browser.find_element(By.ID, "more").click()

    until(browser, lambda: len(weights(browser)) == 20)
    assert text(browser, "#reason").endswith("“azul marino”.")
    Select(browser.find_element(By.ID, "dataset")).select_by_value("paises")
    until(browser, lambda: "dataset=paises" in browser.current_url)
    assert "azul" not in browser.current_url, "of another dataset its own first question is asked"


def test_long_texts_leave_the_keys_in_sight(browser: Chrome, bundled: Service) -> None:
    long = "frase larga " * 400
    rows = {key: {"respuesta": f"{key} {long}"} for key in ("alfa", "beta", "gamma")}
    loaded = {"name": "faq", "entries": rows, "columns": {"respuesta": "text"}}
    assert bundled.post("/datasets", loaded).status == 201
    browser.get(bundled.origin + "/?lang=en&dataset=faq&q=beta")
    until(browser, lambda: weights(browser))
    browser.find_element(By.CSS_SELECTOR, "#hand summary").click()
    until(browser, lambda: text(browser, "#hand-blend"))
    places = (HEADLINE, ".match .values", "#exact .long", "#hand-blend .long")
    for place in places:
        cut = browser.find_element(By.CSS_SELECTOR, place)
        until(browser, lambda cut=cut: cut.get_attribute("aria-expanded") == "false")
        height = cut.size["height"]
        assert height < 400
        cut.click()
        assert cut.size["height"] > 2 * height
        assert str(cut.get_property("textContent")).endswith(long)
        cut.click()
    assert len(said_aloud(browser)) < 300, "a screen reader hears the beginning"
    assert said_aloud(browser).endswith(text(browser, "#trust"))
    assert bundled.ask("DELETE", "/datasets/faq").status == 204


def test_line_breaks_are_shown_and_never_glue_words(browser: Chrome, bundled: Service) -> None:
    steps = "1. Entra\n2. Pulsa"
    rows = {
        "¿Cómo devuelvo\nun pedido?": {"respuesta": steps},
        "¿Aceptan tarjeta?": {"respuesta": "Sí"},
    }
    loaded = {"name": "ayuda", "entries": rows, "columns": {"respuesta": "text"}}
    assert bundled.post("/datasets", loaded).status == 201
    browser.get(bundled.origin + "/?lang=en&dataset=ayuda")
    until(browser, lambda: weights(browser))

    question = browser.find_element(By.ID, "q").get_property("value")
    assert question == "¿Aceptan tarjeta?", "a key that a field can hold"
    hint = browser.find_element(By.ID, "where").get_attribute("placeholder")
    assert hint == 'for example: respuesta = "Sí"'
    browser.get(bundled.origin + "/?lang=en&dataset=ayuda&q=c%C3%B3mo%0Adevuelvo")
    until(browser, lambda: weights(browser))
    assert browser.find_element(By.ID, "q").get_property("value") == "cómo devuelvo"
    assert text(browser, HEADLINE) == steps
    assert steps in text(browser, "#matches")

    assert bundled.ask("DELETE", "/datasets/ayuda/entries/%C2%BFAceptan%20tarjeta%3F").status == 204
    browser.get(bundled.origin + "/?lang=en&dataset=ayuda")
    until(browser, lambda: weights(browser))
    assert browser.find_element(By.ID, "q").get_property("value") == "¿Cómo devuelvo un pedido?"
    assert bundled.ask("DELETE", "/datasets/ayuda").status == 204


def test_a_label_or_text_of_nothing_is_seen_to_be_there(browser: Chrome, bundled: Service) -> None:
    rows = {"pan": {"zona": "", "nota": " "}, "sal": {"zona": "", "nota": "del mar"}}
    rows |= {"miel": {"zona": "norte", "nota": "dulce"}, "vino": {"zona": "norte", "nota": "tinto"}}
    assert bundled.post("/datasets", {"name": "huecos", "entries": rows}).status == 201
    browser.get(bundled.origin + "/?lang=en&dataset=huecos&q=pan&temperature=0.05")
    until(browser, lambda: weights(browser))

    shown = ["#blend .headline", "#blend .shares .key", "#exact :nth-child(2)", "#matches .value"]
    assert [text(browser, each) for each in shown] == ['""', '""', '""', 'zona: ""']
    assert said_aloud(browser).startswith('zona: "".')
    browser.find_element(By.ID, "steps-title").click()
    until(browser, lambda: '· "" +' in text(browser, "#explanation"))
    assert bundled.ask("DELETE", "/datasets/huecos").status == 204


def test_a_dataset_is_found_by_a_name_whose_accents_stand_apart(
    browser: Chrome, bundled: Service
) -> None:
    assert bundled.post("/datasets", {"name": "año", "entries": {"a": 1, "b": 2}}).status == 201
    browser.get(bundled.origin + "/?lang=en&dataset=an%CC%83o&q=a")
    until(browser, lambda: weights(browser))

    assert dataset_of(browser) == "año"
    assert bundled.ask("DELETE", "/datasets/a%C3%B1o").status == 204


def test_where_one_value_has_the_weight_it_is_the_median_too(
    browser: Chrome, bundled: Service
) -> None:
    rows = {"manzana roja": 1234.5, "dos kilos de harina": 3.25}
    assert bundled.post("/datasets", {"name": "caro", "entries": rows}).status == 201
    browser.get(bundled.origin + "/?lang=en&dataset=caro&q=manzana&temperature=0.06")
    until(browser, lambda: weights(browser))

    assert max(weights(browser).values()) > 0.95
    assert "lies at 1234.5" in text(browser, HEADLINE)
    assert "median" not in text(browser, HEADLINE)
    assert bundled.ask("DELETE", "/datasets/caro").status == 204
