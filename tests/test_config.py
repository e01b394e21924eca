from __future__ import annotations

import json
from pathlib import Path

import platformdirs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tau_kernel.config import Config, load_config
from tau_kernel.errors import ConfigError


def written(home: Path, value: object) -> dict[str, str]:
    """Write a configuration and give the environment that points to it."""
    (home / "config.json").write_text(json.dumps(value), encoding="utf-8")
    return {"TAU_HOME": str(home)}


def refusal(environ: dict[str, str]) -> str:
    with pytest.raises(ConfigError) as caught:
        load_config(environ)
    message = str(caught.value)
    assert message.count("\n") <= 2
    return message


def test_without_a_file_every_setting_has_its_default(tmp_path: Path) -> None:
    assert Config(home=tmp_path) == load_config({"TAU_HOME": str(tmp_path)})


def test_without_tau_home_the_users_data_folder_is_home() -> None:
    expected = platformdirs.user_data_path("tau-kernel", appauthor=False)
    assert expected == load_config({}).home


def test_a_relative_home_is_made_absolute() -> None:
    assert load_config({"TAU_HOME": "no-such-folder"}).home.is_absolute()


def test_a_home_that_is_a_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "home"
    file.touch()
    assert f"TAU_HOME={str(file)!r} is a file" in refusal({"TAU_HOME": str(file)})


def test_every_setting_is_read(tmp_path: Path) -> None:
    environ = written(
        tmp_path,
        {
            "default_model": "fast",
            "models": {"fast": {"backend": "openai", "model": "m", "temperature": 0}},
            "system_prompt": "Be brief.",
            "ui_defaults": {"confirm": "no"},
            "remote_images": True,
        },
    )
    assert load_config(environ | {"TAU_MODEL": "echo"}) == Config(
        home=tmp_path,
        environ_model="echo",
        default_model="fast",
        models={"fast": {"backend": "openai", "model": "m", "temperature": 0}},
        system_prompt="Be brief.",
        ui_defaults={"confirm": "no"},
        remote_images=True,
    )


def test_limits_of_cells_and_sessions_are_read(tmp_path: Path) -> None:
    limits = {"cell": {"max_turns": 3}, "session": {"max_tokens": 9, "max_cost": 0.5}}
    config = load_config(written(tmp_path, {"limits": limits}))
    assert config.cell_limits == limits["cell"]
    assert config.session_limits == limits["session"]


@pytest.mark.parametrize(
    ("wrong", "place"),
    [
        ({"limits": {"cel": {}}}, "'limits.cel'"),
        ({"limits": {"cell": {"max_token": 1}}}, "'limits.cell.max_token'"),
        ({"limits": {"cell": {"max_turns": 0}}}, "'limits.cell.max_turns'"),
        ({"limits": {"session": {"max_cost": 0}}}, "'limits.session.max_cost'"),
        (
            {"models": {"m": {"backend": "openai", "prices": {"input": -1}}}},
            "'models.m.prices.input'",
        ),
    ],
)
def test_a_wrong_limit_or_price_is_told_with_its_place(
    tmp_path: Path, wrong: dict[str, object], place: str
) -> None:
    assert place in refusal(written(tmp_path, wrong))


def test_a_key_in_the_file_is_not_shown_by_the_configuration(tmp_path: Path) -> None:
    environ = written(tmp_path, {"models": {"m": {"api_key": "hush"}}})
    assert "hush" not in repr(load_config(environ))


def test_broken_json_is_told_with_file_line_and_column(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text('{\n  "default_model": "echo",\n}\n', encoding="utf-8")
    assert f"{file}, line 3, column 1" in refusal({"TAU_HOME": str(tmp_path)})


def test_text_that_is_not_utf8_is_told_with_its_byte(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes(b'{"\xff')
    assert "byte 3: not UTF-8" in refusal({"TAU_HOME": str(tmp_path)})


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "config.json").mkdir()
    assert "config.json cannot be read" in refusal({"TAU_HOME": str(tmp_path)})


def test_json_that_is_no_object_is_refused(tmp_path: Path) -> None:
    assert "holds list, not an object" in refusal(written(tmp_path, []))


def test_an_unknown_key_suggests_the_nearest(tmp_path: Path) -> None:
    message = refusal(written(tmp_path, {"defualt_model": "echo"}))
    assert "unknown key 'defualt_model'; did you mean 'default_model'" in message


def test_an_unknown_key_of_a_model_is_told_with_its_place(tmp_path: Path) -> None:
    message = refusal(written(tmp_path, {"models": {"fast": {"bakend": "openai"}}}))
    assert "'models.fast.bakend'; did you mean 'models.fast.backend'" in message


def test_an_unknown_key_unlike_any_other_lists_the_known(tmp_path: Path) -> None:
    message = refusal(written(tmp_path, {"zzz": 1}))
    assert "'zzz'; remove it\nknown keys: default_model, models" in message


@pytest.mark.parametrize(
    ("found", "place"),
    [
        ({"default_model": ""}, "default_model"),
        ({"default_model": 1}, "default_model"),
        ({"models": []}, "models"),
        ({"models": {"m": 1}}, "models.m"),
        ({"models": {"m": {"max_tokens": True}}}, "models.m.max_tokens"),
        ({"models": {"m": {"max_tokens": 0}}}, "models.m.max_tokens"),
        ({"models": {"m": {"context_window": 1.5}}}, "models.m.context_window"),
        ({"models": {"m": {"temperature": -1}}}, "models.m.temperature"),
        ({"models": {"m": {"request_timeout": 0}}}, "models.m.request_timeout"),
        ({"models": {"m": {"reasoning": 1}}}, "models.m.reasoning"),
        ({"ui_defaults": {"confirm": True}}, "ui_defaults.confirm"),
        ({"remote_images": "yes"}, "remote_images"),
    ],
)
def test_a_value_of_the_wrong_kind_is_told_with_its_place(
    tmp_path: Path, found: object, place: str
) -> None:
    message = refusal(written(tmp_path, found))
    assert f"{place!r} is " in message
    assert "\nwrite " in message


def test_a_wrong_key_for_a_service_is_not_repeated(tmp_path: Path) -> None:
    message = refusal(written(tmp_path, {"models": {"m": {"api_key": 12345}}}))
    assert "models.m.api_key" in message
    assert "12345" not in message


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: st.dictionaries(
            st.sampled_from(["models", "m", "api_key", "ui_defaults", "x"]), inner
        ),
        max_leaves=8,
    )
)
def test_any_json_loads_or_is_refused_as_configuration(
    tmp_path_factory: pytest.TempPathFactory, found: object
) -> None:
    environ = written(tmp_path_factory.mktemp("home"), found)
    try:
        config = load_config(environ)
    except ConfigError:
        return
    assert isinstance(config, Config)
