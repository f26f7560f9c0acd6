"""Services to test: one inside this process, for most tests, and real ones over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from service.app import create_app
from service.requests import Api
from service.settings import Settings
from tests.service.checked import CheckedClient
from tests.service.running import Service

COUNTRIES = {"méxico": 7, "alemania": 10, "inglaterra": 8, "perro": 5}
WORDS = {"PERRO": "DOG", "PELO": "HAIR", "TIENE": "HAS"}
COLOURS = {"azul": [10, 20, 240], "rojo": [240, 20, 10], "verde": [20, 200, 30]}

Make = Callable[..., CheckedClient]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Make a client of an application with an empty store, under the settings given."""
    made: list[Api] = []

    def client(**given: object) -> CheckedClient:
        home = tmp_path / f"store-{len(made)}"
        settings = Settings.model_validate(
            {"home": home, "encoder": "random", "bundled": False, **given}
        )
        app = create_app(settings)
        app.test_client_class = CheckedClient
        made.append(app)
        client = app.test_client()
        assert isinstance(client, CheckedClient)
        return client

    yield client
    for app in made:
        app.extensions["softdict"].close()


@pytest.fixture
def client(make: Make) -> CheckedClient:
    """A client of a service with three small datasets: numbers, texts and colours."""
    made = make()
    for name, entries in {"paises": COUNTRIES, "palabras": WORDS, "colores": COLOURS}.items():
        reply = made.post("/datasets", json={"name": name, "entries": entries})
        assert reply.status_code == 201, reply.text
    return made


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A real service in a process of its own, with the dataset ``paises``."""
    folder = tmp_path_factory.mktemp("service")
    with Service(folder / "store", SOFTDICT_ENCODER="random", SOFTDICT_BUNDLED="0") as running:
        created = running.post("/datasets", {"name": "paises", "entries": COUNTRIES})
        assert created.status == 201, created.text
        yield running
