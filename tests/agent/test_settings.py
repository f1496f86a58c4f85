"""Settings: where a value comes from, and what is said of one that cannot be used."""

from __future__ import annotations

from pathlib import Path

import pytest

from labwright.agent.settings import (
    KEY_ALIASES,
    Settings,
    SettingsError,
    compose_settings,
    list_known_keys,
    override_settings,
    parse_duration,
    settings_from_assignments,
)
from labwright.models.roles.experiment_code import CODE
from labwright.models.roles.figures import VISION
from labwright.models.roles.paper_writing import WRITE


def composed(tmp_path: Path, text: str | None = None, flags: dict[str, object] | None = None, **env: str) -> Settings:
    config = None
    if text is not None:
        config = tmp_path / "config.yaml"
        config.write_text(text)
    return compose_settings(config=config, flags=flags or {}, environment=env)


def said(tmp_path: Path, text: str | None = None, flags: dict[str, object] | None = None, **env: str) -> str:
    with pytest.raises(SettingsError) as caught:
        composed(tmp_path, text, flags, **env)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_flags_win_over_environment_over_file_over_defaults(tmp_path: Path) -> None:
    text = "search: {num_workers: 3, num_drafts: 4, num_seeds: 6}\nseed: 9"
    found = composed(
        tmp_path, text, {"search.num_workers": 5}, SCIENTIST_SEARCH__NUM_WORKERS="4", SCIENTIST_SEARCH__NUM_DRAFTS="7"
    )
    assert (found.search.num_workers, found.search.num_drafts, found.search.num_seeds) == (5, 7, 6)
    assert (found.seed, found.search.max_debug_depth) == (9, Settings().search.max_debug_depth)


@pytest.mark.parametrize(
    ("name", "value", "where"),
    [
        ("num_workers", 3, "search.num_workers"),
        ("num_drafts", 3, "search.num_drafts"),
        ("max_debug_depth", 2, "search.max_debug_depth"),
        ("debug_prob", 0.5, "search.debug_prob"),
        ("num_seeds", 4, "search.num_seeds"),
        ("exec.timeout", 70.0, "sandbox.timeout"),
        ("model", "openai-chat:x", "models.name"),
    ],
)
def test_familiar_names_are_kept(tmp_path: Path, name: str, value: object, where: str) -> None:
    found: object = composed(tmp_path, flags={name: value})
    for part in where.split("."):
        found = getattr(found, part)
    assert found == value


@pytest.mark.parametrize(
    ("text", "value"),
    [("12h", 43200.0), ("90m", 5400.0), ("45s", 45.0), ("1h30m", 5400.0), ("0.5h", 1800.0), ("600", 600.0)],
)
def test_durations(tmp_path: Path, text: str, value: float) -> None:
    assert composed(tmp_path, flags={"time_limit": text}).time_limit == value
    assert float(parse_duration(text)) == value


def test_set_is_typed_as_yaml(tmp_path: Path) -> None:
    flags = settings_from_assignments(
        (
            "seed=4 models.vision=false models.base_url=http://h/v1 search.order=ticket search.window=null "
            "search.debug_prob=0.5"
        ).split()
    )
    found = composed(tmp_path, flags=flags)
    assert (found.seed, found.models.roles["vision"].name, found.models.base_url) == (4, False, "http://h/v1")
    assert (found.search.order, found.search.window, found.search.debug_prob) == ("ticket", None, 0.5)


@pytest.mark.parametrize("text", ["seed", "=3", "seed=[1", ""])
def test_what_is_no_assignment_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="--set"):
        settings_from_assignments([text])


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("search.num_wokers", "search.num_workers"),
        ("numworkers", "num_workers"),
        ("sandbox.tiemout", "sandbox.timeout"),
        ("tuning.nodes", "search.tuning.nodes"),
        ("search.tuning.nods", "search.tuning.nodes"),
        ("modles.name", "models.name"),
        ("temperature", "models."),
    ],
)
def test_an_unknown_key_names_the_nearest(tmp_path: Path, key: str, meant: str) -> None:
    message = said(tmp_path, flags={key: 1})
    assert message.startswith(f"unknown setting {key!r} (on the command line); did you mean '{meant}")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("search.num_workers", 0),
        ("search.num_workers", "many"),
        ("search.order", "random"),
        ("seed", -1),
        ("models.roles.code.temperature", 3),
        ("models.roles.nobody.temperature", 1),
        ("search.num_workers", None),
        ("sandbox.timeout", [1]),
    ],
)
def test_a_wrong_value_is_named_with_its_key_and_layer(tmp_path: Path, key: str, value: object) -> None:
    message = said(tmp_path, flags={key: value})
    assert key.rsplit(".", 1)[0] in message and "(on the command line)" in message


def test_variables_are_filled_in_from_the_environment(tmp_path: Path) -> None:
    text = "models: {base_url: '${HOST}/v1', name: '${NAME:-offline}'}\nsearch: {num_workers: '${WORKERS}'}"
    found = composed(tmp_path, text, HOST="http://h", WORKERS="3")
    assert (found.models.base_url, found.models.name, found.search.num_workers) == ("http://h/v1", "offline", 3)
    assert "HOST" in said(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: [1", "cannot read"),
        ("- 1\n- 2", "must contain"),
        ("just words", "must contain"),
        ("a: 1\n\tb: 2", "line 2"),
    ],
)
def test_a_file_that_is_no_mapping_is_refused(tmp_path: Path, text: str, words: str) -> None:
    assert words in said(tmp_path, text)


def test_a_path_in_a_file_is_seen_from_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    assert composed(tmp_path, "paper: {bib: my.bib}").paper.bib == (tmp_path / "my.bib").resolve()
    assert composed(tmp_path, flags={"bib": "my.bib"}).paper.bib == Path("/my.bib")


def test_resume_starts_from_what_was_recorded() -> None:
    recorded = compose_settings(flags={"seed": 5, "search.num_seeds": 9}, environment={}).model_dump(mode="json")
    again = override_settings(recorded, {"time_limit": "2h"})
    assert (again.seed, again.search.num_seeds, again.time_limit) == (5, 9, 7200.0)
    assert override_settings(recorded, {}).model_dump(mode="json") == recorded
    with pytest.raises(SettingsError, match="num_seeds"):
        override_settings(recorded, {"search.num_seed": 3})


def test_every_default_key_can_be_set_to_its_default(tmp_path: Path) -> None:
    defaults = Settings().model_dump(mode="json")
    for key in list_known_keys():
        if "." in key and key not in KEY_ALIASES:
            value: object = defaults
            for part in key.split("."):
                assert isinstance(value, dict)
                value = value[part]  # pyrefly: ignore
            assert composed(tmp_path, flags={key: value}) == Settings(), key


def test_a_model_of_a_role_is_a_name_or_a_mapping_in_every_layer(tmp_path: Path) -> None:
    file = """
models:
  name: anthropic:a
  code: openai:b
  write: {name: "google:c", temperature: 0.2}
  fallbacks: ["ollama:d", {name: "openai-chat:e", base_url: "http://h/v1"}]
"""
    found = composed(
        tmp_path, file, flags={"models.vision": False, "models.code.max_tokens": 77}, SCIENTIST_MODELS__JUDGE="openai:f"
    ).models
    assert found.model_names == (
        "anthropic:a (code: openai:b; write: google:c; judge: openai:f; fallback: ollama:d, openai-chat:e)"
    )
    assert (found.get_max_tokens(CODE), found.get_temperature(WRITE), found.list_candidates(VISION)) == (77, 0.2, ())
    assert found.fallbacks[1].base_url == "http://h/v1"
    recorded = composed(tmp_path, file).model_dump(mode="json")
    assert override_settings(recorded, {"models.code": None}).models.list_candidates(CODE)[0].name == "anthropic:a"
    assert override_settings(recorded, {"models.fallbacks": []}).models.fallbacks == ()


@pytest.mark.parametrize("recorded", [None, False])
def test_a_record_from_before_models_had_roles_can_be_read(recorded: bool | None) -> None:
    found = override_settings({"models": {"name": "openai:a", "vision": recorded}}, {})
    assert bool(found.models.list_candidates(VISION)) == (recorded is None)


def test_a_wrong_model_of_a_role_is_named(tmp_path: Path) -> None:
    assert "models.roles.code cannot be false" in said(tmp_path, flags={"models.code": False})
    assert "models.roles.code.temperature" in said(tmp_path, flags={"models.code.temperature": 3})
    assert said(tmp_path, flags={"models.writer": "openai:a"}).startswith("unknown setting 'models.writer'")
