"""GET /search, GET and POST /compare: what is asked reaches the library, and comes back shaped."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from urllib.parse import quote

import pytest
from pydantic import ValidationError

from index.answers import Answer, LabelBlend, Match
from service.outgoing import AnswerOut
from tests.service.checked import CheckedClient
from tests.service.conftest import COUNTRIES, Make


def test_search_answers_the_first_dataset_with_the_fields_of_the_design(
    client: CheckedClient,
) -> None:
    answer = client.get("/search?q=país&k=2").get_json()

    assert list(answer) == [
        "query",
        "dataset",
        "mode",
        "blend",
        "matches",
        "attention",
        "confidence",
    ]
    assert (answer["query"], answer["dataset"], answer["mode"]) == ("país", "paises", "soft")
    assert [set(match) for match in answer["matches"]] == [{"key", "values", "score", "weight"}] * 2
    assert answer["attention"]["keys"] == 4
    assert (answer["attention"]["coverage"], answer["attention"]["error"]) == (1.0, 0.0)
    assert answer["attention"]["scored"] == 4


def test_where_enough_values_tell_a_number_says_where_an_unseen_one_lies(
    client: CheckedClient,
) -> None:
    entries = {f"key {number}": number % 7 for number in range(60)}
    assert client.post("/datasets", json={"name": "many", "entries": entries}).status_code == 201
    many = client.get("/search?dataset=many&q=key").get_json()["blend"]["value"]
    few = client.get("/search?dataset=paises&q=key").get_json()["blend"]["value"]

    (low, high), (least, greatest) = many["interval"], many["prediction_interval"]
    assert 0 <= least <= low <= many["mean"] <= high <= greatest <= 6
    assert "prediction_interval" not in few


TOLD = Answer(
    query="país",
    dataset="paises",
    mode="soft",
    blend={"lengua": LabelBlend((("es", 0.5), ("de", 0.25)), 0.125, 0.75, "category")},
    matches=(Match("perú", "es", {"lengua": "es"}, 0.625, 0.375, {"lugar": (1, 2.5)}),),
    temperature=0.0625,
    temperature_source="fitted",
    effective_keys=3.5,
    keys=40_000,
    coverage=0.875,
    error=0.03125,
    scored=900,
    confidence=0.9375,
    units={"altura": "€"},
)


def test_every_figure_of_an_answer_stands_under_its_own_name() -> None:
    assert AnswerOut.of(TOLD).model_dump(exclude_unset=True) == {
        "query": "país",
        "dataset": "paises",
        "mode": "soft",
        "blend": {
            "lengua": {
                "type": "category",
                "value": "es",
                "probability": 0.5,
                "distribution": [
                    {"value": "es", "probability": 0.5},
                    {"value": "de", "probability": 0.25},
                ],
                "rest": 0.125,
                "known": 0.75,
            }
        },
        "matches": [
            {
                "key": "perú",
                "values": {"lengua": "es"},
                "score": 0.625,
                "weight": 0.375,
                "attributes": {"lugar": [1, 2.5]},
            }
        ],
        "attention": {
            "temperature": 0.0625,
            "temperature_source": "fitted",
            "effective_keys": 3.5,
            "keys": 40_000,
            "coverage": 0.875,
            "error": 0.03125,
            "scored": 900,
        },
        "confidence": 0.9375,
        "units": {"altura": "€"},
    }


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_a_figure_that_json_cannot_say_is_a_fault_and_not_null(number: float) -> None:
    with pytest.raises(ValidationError, match="finite"):
        AnswerOut.of(replace(TOLD, confidence=number))
    with pytest.raises(ValidationError, match="finite"):
        AnswerOut.of(replace(TOLD, matches=(Match("a", 1, {"v": number}, 0.5, 1.0),)))


@pytest.mark.parametrize("tolerance", [0, 0.03, 0.999])
def test_a_tolerance_is_taken_everywhere_and_changes_no_small_dataset(
    client: CheckedClient, tolerance: float
) -> None:
    body = {"q": "país", "tolerance": tolerance}

    plain = client.get("/search?q=país").get_json()
    assert client.get(f"/search?q=país&tolerance={tolerance}").get_json() == plain
    assert client.post("/search", json=body).get_json() == plain
    assert client.get(f"/compare?q=país&tolerance={tolerance}").get_json()["soft"] == plain
    assert client.post("/compare", json=body).get_json()["soft"] == plain


@pytest.mark.parametrize("path", ["/search", "/compare"])
@pytest.mark.parametrize("tolerance", [1, -0.1, "low", "nan", "", True, [0.1], 10**400])
def test_a_wrong_tolerance_is_named_beside_every_other_fault(
    client: CheckedClient, path: str, tolerance: object
) -> None:
    said = client.faults("POST", path, json={"q": "a", "k": 0, "tolerance": tolerance})
    asked = client.faults("GET", f"{path}?q=a&k=0&tolerance={tolerance}")

    for faults in (said, asked):
        assert faults == {
            "k": "write 1 or more",
            "tolerance": "write a number from 0 (every key is scored) to below 1, such as 0.03",
        }


def test_in_json_a_tolerance_is_a_number(client: CheckedClient) -> None:
    faults = client.faults("POST", "/search", json={"q": "a", "tolerance": "0.03"})

    assert faults == {"tolerance": "write a number"}


def test_the_weights_and_the_blend_are_those_of_the_formula(client: CheckedClient) -> None:
    answer = client.get("/search?q=país&temperature=0.1&k=4").get_json()

    scores = {match["key"]: match["score"] for match in answer["matches"]}
    terms = {key: math.exp(score / 0.1) for key, score in scores.items()}
    weights = {key: term / sum(terms.values()) for key, term in terms.items()}
    mean = sum(weights[key] * COUNTRIES[key] for key in weights)
    shown = {match["key"]: match["weight"] for match in answer["matches"]}
    assert shown == pytest.approx(weights, abs=1e-5)
    assert answer["blend"]["value"]["mean"] == pytest.approx(mean, abs=1e-4)
    assert answer["attention"]["temperature"] == pytest.approx(0.1)


def test_a_whole_number_stays_one(client: CheckedClient) -> None:
    text = client.get("/search?q=perro&k=1").text

    assert '"values":{"value":5}' in text


def test_the_answer_is_utf8_and_not_escaped(client: CheckedClient) -> None:
    response = client.get("/search?q=país")

    assert response.content_type == "application/json"
    assert "méxico".encode() in response.data


def test_the_weight_of_a_row_does_not_depend_on_k(client: CheckedClient) -> None:
    one = client.get("/search?q=país&k=1").get_json()["matches"]
    all_ = client.get("/search?q=país&k=4").get_json()["matches"]

    assert one == all_[:1]
    assert sum(match["weight"] for match in all_) == pytest.approx(1.0, abs=1e-5)


def test_dataset_chooses_the_dataset(client: CheckedClient) -> None:
    answer = client.get("/search?q=PERRO&dataset=palabras&temperature=0.01").get_json()

    blend = answer["blend"]["value"]
    assert (blend["type"], blend["value"]) == ("text", "DOG")
    assert blend["distribution"][0]["probability"] == pytest.approx(1.0, abs=1e-6)


def test_a_vector_comes_as_a_list(client: CheckedClient) -> None:
    answer = client.get("/search?q=rojo&dataset=colores&k=1&temperature=0.001").get_json()

    assert answer["matches"][0]["values"] == {"value": [240, 20, 10]}
    assert answer["blend"]["value"]["mean"] == pytest.approx([240, 20, 10], abs=1e-3)


def test_mode_exact_answers_as_a_plain_dictionary(client: CheckedClient) -> None:
    found = client.get("/search?q=perro&mode=exact").get_json()
    absent = client.get("/search?q=país&mode=exact").get_json()

    assert [(match["key"], match["weight"]) for match in found["matches"]] == [("perro", 1.0)]
    assert (absent["matches"], absent["blend"]) == ([], {"value": None})


def test_as_of_attends_to_the_first_entries_only(client: CheckedClient) -> None:
    answer = client.get("/search?q=perro&as_of=2").get_json()

    assert {match["key"] for match in answer["matches"]} == {"méxico", "alemania"}
    assert answer["attention"]["keys"] == 2


def test_as_of_a_time_before_all_entries_attends_to_nothing(client: CheckedClient) -> None:
    answer = client.get("/search?q=perro&as_of=1999-12-31").get_json()

    assert (answer["matches"], answer["attention"]["keys"]) == ([], 0)


@pytest.mark.parametrize("temperature", ["auto", "sqrt_d", "effective_keys:2", "0.25"])
def test_every_spelling_of_a_temperature_is_taken(client: CheckedClient, temperature: str) -> None:
    attention = client.get(f"/search?q=país&temperature={temperature}").get_json()["attention"]

    if temperature == "effective_keys:2":
        assert attention["effective_keys"] == pytest.approx(2.0, abs=1e-3)
    if temperature == "sqrt_d":
        assert attention["temperature"] == pytest.approx(math.sqrt(384), rel=1e-5)


def test_explain_shows_the_steps_and_they_lead_to_the_weights(client: CheckedClient) -> None:
    answer = client.get("/search?q=país&explain=1&temperature=0.1").get_json()

    steps = answer["explanation"]
    top = steps["rows"][0]
    assert top["logit"] == pytest.approx(top["score"] / 0.1, rel=1e-4)
    assert top["exp"] / steps["normaliser"] == pytest.approx(top["weight"], abs=1e-5)


def test_the_steps_tell_what_is_not_listed_from_what_is_masked(client: CheckedClient) -> None:
    asked = "/search?q=país&explain=1&temperature=0.1&as_of=3"
    steps, whole = (client.get(f"{asked}&k={k}").get_json()["explanation"] for k in (1, 4))

    exps = [math.exp(row["logit"] - whole["max_logit"]) for row in whole["rows"]]
    assert len(exps) == 3 and max(exps) == 1
    assert (steps["keys"], steps["masked"], len(steps["rows"])) == (3, 1, 1)
    assert steps["normaliser"] == pytest.approx(sum(exps), rel=1e-5)
    others = {"keys": 2, "exp": sum(exps[1:]), "weight": sum(exps[1:]) / sum(exps)}
    assert steps["others"] == pytest.approx(others, rel=1e-4)
    assert whole["others"] == {"keys": 0, "exp": 0, "weight": 0}


def test_the_steps_of_a_question_that_nothing_may_answer_are_none(client: CheckedClient) -> None:
    answer = client.get("/search?q=país&explain=1&as_of=1999-12-31").get_json()

    steps = answer["explanation"]
    assert (steps["max_logit"], steps["normaliser"], steps["rows"]) == (None, 0, [])
    assert (steps["keys"], steps["masked"]) == (0, 4)
    assert steps["others"] == {"keys": 0, "exp": 0, "weight": 0}


def test_compare_sets_exact_beside_soft(client: CheckedClient) -> None:
    absent = client.get("/compare?q=país").get_json()
    found = client.get("/compare?q=méxico").get_json()

    assert absent["exact"] == {"found": False, "values": None}
    assert absent["differences"] == ["An exact lookup finds no key 'país' and answers nothing."]
    assert found["exact"] == {"found": True, "values": {"value": 7}}
    assert found["soft"]["matches"][0]["key"] == "méxico"
    assert found["manual"] is None


def test_compare_blends_weights_chosen_by_hand(client: CheckedClient) -> None:
    weights = {"méxico": 0.3, "alemania": 0.3, "inglaterra": 0.3, "perro": 0.1}
    manual = client.post("/compare", json={"q": "país", "weights": weights}).get_json()["manual"]

    assert manual["blend"]["value"]["mean"] == pytest.approx(8.0, abs=1e-6)
    assert manual["total"] == pytest.approx(1.0)


def test_compare_normalises_weights_and_says_what_they_summed_to(client: CheckedClient) -> None:
    body = {"q": "país", "weights": {"méxico": 3, "perro": 1}}
    manual = client.post("/compare", json=body).get_json()["manual"]

    assert manual["weights"] == pytest.approx({"méxico": 0.75, "perro": 0.25})
    assert manual["total"] == 4.0
    assert manual["blend"]["value"]["mean"] == pytest.approx(6.5)


def test_compare_names_every_unknown_key_among_the_weights(client: CheckedClient) -> None:
    body = {"q": "país", "weights": {"mexico": 1, "chile": 1, "perro": 1}}

    assert set(client.faults("POST", "/compare", json=body)) == {"weights.mexico", "weights.chile"}


# -- where -------------------------------------------------------------------------------------

ROWS = [
    {"key": "vino", "precio": 9, "país": "ES", "año": 2019},
    {"key": "cerveza", "precio": 2, "país": "DE", "año": 2024},
    {"key": "cava", "precio": 7, "país": "ES", "año": None},
    {"key": "sidra", "precio": 3, "país": "ES", "año": 2022},
]


@pytest.fixture
def bar(make: Make) -> CheckedClient:
    """A client of a service with drinks, whose country and year are attributes."""
    made = make()
    document = {
        "name": "bar",
        "entries": ROWS,
        "columns": {"país": {"type": "category", "attribute": True}},
        "attributes": ["año"],
    }
    reply = made.post("/datasets", json=document)
    assert reply.status_code == 201, reply.text
    return made


FORMS = [
    'país = "ES" and precio >= 3 and año is not missing',
    '{"and": [{"país": "ES"}, {"precio": {"gte": 3}}], "not": {"año": null}}',
]


@pytest.mark.parametrize("where", FORMS)
def test_where_filters_before_the_weights_are_made(bar: CheckedClient, where: str) -> None:
    found = bar.get(f"/search?q=bebida&where={quote(where)}").get_json()
    compared = bar.get(f"/compare?q=cerveza&where={quote(where)}").get_json()

    assert {match["key"] for match in found["matches"]} == {"vino", "sidra"}
    assert sum(match["weight"] for match in found["matches"]) == pytest.approx(1.0, abs=1e-6)
    assert found["attention"]["keys"] == 2
    assert compared["exact"]["found"] is False
    assert compared["soft"]["attention"]["keys"] == 2


@pytest.mark.parametrize("where", [*FORMS, json.loads(FORMS[1])])
def test_where_in_a_body_is_text_or_an_object(bar: CheckedClient, where: object) -> None:
    body = {"q": "bebida", "where": where}
    found = bar.post("/search", json={**body, "mode": "soft", "explain": True}).get_json()
    compared = bar.post("/compare", json={**body, "weights": {"vino": 1}}).get_json()

    assert {match["key"] for match in found["matches"]} == {"vino", "sidra"}
    assert found["explanation"]["masked"] == 2
    assert {match["key"] for match in compared["soft"]["matches"]} == {"vino", "sidra"}


def test_a_body_asks_what_the_query_asks(client: CheckedClient) -> None:
    asked = client.post("/search", json={"q": "país", "k": 2, "temperature": 0.1}).get_json()

    assert asked == client.get("/search?q=país&k=2&temperature=0.1").get_json()


def test_attributes_stand_beside_the_values_and_are_not_blended(bar: CheckedClient) -> None:
    found = bar.get("/search?q=vino&k=1&where=precio=9").get_json()
    entry = bar.get("/datasets/bar/entries/vino").get_json()
    described = bar.get("/datasets/bar").get_json()

    assert list(found["blend"]) == ["precio"]
    assert found["matches"][0]["values"] == {"precio": 9}
    assert found["matches"][0]["attributes"] == {"país": "ES", "año": 2019}
    assert entry["values"] == {"precio": 9, "país": "ES", "año": 2019}
    assert described["columns"] == [
        {"name": "precio", "type": "number"},
        {"name": "país", "type": "category", "attribute": True},
        {"name": "año", "type": "number", "attribute": True},
    ]
    changed = bar.put("/datasets/bar/entries/vino", json=10).get_json()
    assert changed["values"] == {"precio": 10, "país": "ES", "año": 2019}


@pytest.mark.parametrize(
    ("where", "faults"),
    [
        ("precio >", {"where": "character 9: the condition ends too early"}),
        (
            "prezio > 3",
            {"where": "character 1: there is no column 'prezio'; did you mean 'precio'?"},
        ),
        ('{"precio": {"gte": "x"}}', {"where.precio.gte": "'precio' holds numbers"}),
        ("", {"where": "character 1: the condition ends too early"}),
    ],
)
def test_a_fault_of_where_is_named_by_its_place(
    bar: CheckedClient, where: str, faults: dict[str, str]
) -> None:
    said = bar.faults("GET", f"/search?q=a&where={quote(where)}")

    assert said.keys() == faults.keys()
    assert all(said[place].startswith(words) for place, words in faults.items())


def test_the_form_of_where_is_checked_with_all_else(bar: CheckedClient) -> None:
    said = bar.faults("POST", "/search", json={"q": "", "k": 0, "where": {"and": []}})

    assert set(said) == {"q", "k", "where.and"}
    assert set(bar.faults("POST", "/search", json={"q": "a", "where": 7})) == {"where"}


def test_several_questions_are_answered_in_their_order_as_each_alone(
    client: CheckedClient,
) -> None:
    asked = {"k": 2, "temperature": 0.1, "where": "value > 5", "explain": True}
    queries = ["país", "mascota", "país"]

    found = client.post("/search", json={"q": queries, **asked}).get_json()

    alone = [client.post("/search", json={"q": query, **asked}).get_json() for query in queries]
    assert list(found) == ["answers"]
    assert [answer["query"] for answer in found["answers"]] == queries
    for answer, single in zip(found["answers"], alone, strict=True):
        assert [match["key"] for match in answer["matches"]] == [
            match["key"] for match in single["matches"]
        ]
        assert answer["blend"]["value"]["mean"] == pytest.approx(single["blend"]["value"]["mean"])
        assert answer.keys() == single.keys()
    exact = client.post("/search", json={"q": ["perro", "país"], "mode": "exact"}).get_json()
    assert [len(answer["matches"]) for answer in exact["answers"]] == [1, 0]
    assert len(client.post("/search", json={"q": ["país"]}).get_json()["answers"]) == 1


def test_what_is_wrong_with_several_questions_is_named_by_its_place(make: Make) -> None:
    client = make(max_queries=3, max_query=10)

    def faults(q: object) -> dict[str, str]:
        return client.faults("POST", "/search", json={"q": q, "k": 0})

    many = "at most 3 of them, the setting max_queries"
    assert faults(["a", " ", 3]) == {
        "q.1": "write something to ask", "q.2": "write text", "k": "write 1 or more",
    }  # fmt: skip
    assert faults(["a" * 11]) == {
        "q.0": "at most 10 characters, the setting max_query", "k": "write 1 or more",
    }  # fmt: skip
    assert faults([]) == {"q": "write at least one", "k": "write 1 or more"}
    assert faults(["a"] * 4) == {"q": many, "k": "write 1 or more"}
    assert faults({"a": 1}) == {"q": "write text", "k": "write 1 or more"}
    assert client.faults("POST", "/compare", json={"q": ["a"]}) == {"q": "write text"}
