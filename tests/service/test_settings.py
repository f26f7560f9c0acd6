"""Settings: flags over variables over defaults, within bounds, and spelt right or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from service.settings import Settings, SettingsError, load_settings, source, variable


def test_flags_win_over_variables_and_variables_over_defaults() -> None:
    environ = {"SOFTDICT_PORT": "9000", "SOFTDICT_HOST": "::1", "PATH": "/bin"}
    settings = load_settings({"port": "9001", "threads": None}, environ)

    assert (settings.port, settings.host, settings.threads) == (9001, "::1", 8)
    assert settings.home == Path("var")
    assert [source(name, {"port": 1}, environ) for name in ("port", "host", "threads")] == [
        "flag",
        "environment",
        "default",
    ]


def test_the_defaults_are_what_the_documents_say() -> None:
    settings = Settings()

    assert (str(settings.home), settings.host, settings.port) == ("var", "127.0.0.1", 8000)


def test_a_misspelt_variable_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(SettingsError, match=r"SOFTDICT_PROT: .* the nearest is SOFTDICT_PORT"):
        load_settings({}, {"SOFTDICT_PROT": "9000"})


def test_all_faults_come_at_once() -> None:
    environ = {"SOFTDICT_PROT": "1", "SOFTDICT_THREADS": "0", "SOFTDICT_BUNDLED": "perhaps"}
    with pytest.raises(SettingsError) as caught:
        load_settings({"max_rows": "many"}, environ)

    lines = str(caught.value).splitlines()
    assert [line.partition(":")[0] for line in lines] == [
        "SOFTDICT_PROT",
        "SOFTDICT_THREADS",
        "SOFTDICT_BUNDLED",
        "--max-rows",
    ]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("port", -1),
        ("port", 65536),
        ("threads", 0),
        ("max_key", 0),
        ("max_key", 10_001),
        ("max_k", 0),
        ("max_rows", 0),
        ("max_upload", 0),
        ("max_query", 0),
        ("max_json", 2**63 - 1),  # one byte more cannot be asked for: every request would be a 500
        ("max_jobs", 0),
        ("log_level", "loud"),
        ("host", ""),
        ("encoder", ""),
        ("encoder", "bert"),
        ("allowed_hosts", "http://dict.example"),
        ("allowed_hosts", "dict.example, *.dict.example"),
        ("allowed_hosts", "dict.example; other.example"),
        ("allowed_hosts", "dict.example other.example"),
        ("home", ""),  # which pathlib takes for the folder one stands in
    ],
)
def test_a_value_out_of_bounds_is_refused(name: str, value: object) -> None:
    with pytest.raises(SettingsError, match=f"^{variable(name)}: "):
        load_settings({}, {variable(name): str(value)})


def test_settings_are_frozen() -> None:
    with pytest.raises(ValidationError):
        Settings().port = 1  # type: ignore[misc]


@pytest.mark.parametrize("field", Settings.model_fields)
def test_every_setting_says_what_it_does(field: str) -> None:
    assert Settings.model_fields[field].description
