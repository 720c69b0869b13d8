"""The configuration: options over environment over file, and every fault told with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay import ConfigError, DeviceKind, Operator, Selector
from forebay_core.config import DEFAULT_POOL, load_config, parse_config


def test_without_a_file_there_is_one_pool_of_everything() -> None:
    config = load_config()
    assert config.pools == (DEFAULT_POOL,)
    assert config.source == ""


def test_a_whole_file_is_read() -> None:
    config = parse_config(
        """
policy = "mine"

[plugins]
disable = ["nvidia"]

[plugin.cpu]
pin = false

[[pool]]
name = "training"
strategy = "gangs"
kinds = ["gpu"]
select = ["vendor==nvidia"]
quota = { gpu = 1.5 }
options = { size = 4 }
""",
        "forebay.toml",
    )
    assert config.policy == "mine"
    assert config.plugins.disable == ("nvidia",)
    assert config.plugin == {"cpu": {"pin": False}}
    (pool,) = config.pools
    assert pool.kinds == (DeviceKind.GPU,)
    assert pool.selectors == (Selector("vendor", Operator.EQUAL, "nvidia"),)
    assert pool.quota_millis == {DeviceKind.GPU: 1500}
    assert pool.options == {"size": 4}


def test_disabled_plugins_of_file_environment_and_options_add_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "forebay.toml"
    path.write_text('[plugins]\ndisable = ["a"]\n')
    monkeypatch.setenv("FOREBAY_CONFIG", str(path))
    monkeypatch.setenv("FOREBAY_DISABLE_PLUGINS", "b, c")
    monkeypatch.setenv("FOREBAY_SAFE_MODE", "1")
    config = load_config(disable=("d",))
    assert config.plugins.disable == ("a", "b", "c", "d")
    assert config.plugins.safe_mode
    assert config.source == str(path)


def test_every_fault_is_told_with_file_line_and_field() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(
            'polcy = "x"\nengine = 3\n\n[[pool]]\nname = "a"\nkinds = ["gpus"]\n', "site.toml"
        )
    messages = str(caught.value).splitlines()
    assert len(messages) == 3
    assert messages[0].startswith("site.toml:1: polcy: unknown field.")
    assert messages[1] == "site.toml:2: engine: found 3, expected text."
    assert messages[2].startswith("site.toml:6: pool[0].kinds[0]: found 'gpus', expected one of")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("policy = ", "is not TOML"),
        ('[[pool]]\nname = "a"\nselect = ["vendor"]\n', "site.toml:3: pool[0].select[0]"),
        ('[[pool]]\nname = "a"\nquota = { gpu = -1 }\n', "site.toml:3: pool[0].quota.gpu"),
        ('[[pool]]\nname = "a"\n[[pool]]\nname = "a"\n', "used twice"),
        ("[[pool]]\n", "pool[0].name: is missing"),
    ],
)
def test_a_faulty_file_is_refused(text: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(text, "site.toml")
    assert expected in str(caught.value)


def test_a_file_that_was_named_must_exist(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(tmp_path / "missing.toml")
