"""The configuration: the example file has the defaults, and every mistake is reported at once."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from bot.config import Config, DiscordConfig, ModelConfig
from bot.config.mistakes import InvalidValue
from bot.config.models import CHECKPOINT_DEFAULTS
from bot.config.prompts import read_styles
from bot.config.text_files import read_token_file
from bot.domain.errors import ConfigurationError
from bot.front.recipes.keywords import read_keywords
from sdjax_engine.request import ControlType, Int8, Sampler

EXAMPLE = Path(__file__).parents[2] / "config.example.toml"


def mistakes_in(document: dict[str, Any]) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        Config.parse(document)
    return str(caught.value).splitlines()[1:]


def test_the_example_has_the_default_values() -> None:
    assert Config.load(EXAMPLE) == Config()


def test_the_first_lines_of_the_example_are_a_configuration_of_four_keys() -> None:
    first, stop, _ = EXAMPLE.read_text(encoding="utf-8").partition("# You can stop here.")
    assert stop
    document = tomllib.loads("\n".join(re.findall(r"^#   (.*)", first, flags=re.MULTILINE)))
    config = Config.parse(document)
    assert sum(len(table) for table in (document["discord"], *document["models"], document["queue"])) == 4
    assert config.models[0].unset
    assert config.queue == Config().queue


def test_a_copy_of_the_example_leaves_size_steps_guidance_and_sampler_to_another_checkpoint(
    tmp_path: Path,
) -> None:
    file = tmp_path / "bot.toml"
    example = EXAMPLE.read_text(encoding="utf-8")
    file.write_text(example.replace('checkpoint = "demo"', 'checkpoint = "some/model"'), encoding="utf-8")
    [model] = Config.load(file).models
    assert model.unset == CHECKPOINT_DEFAULTS


def test_the_example_names_every_key() -> None:
    keys = "|".join(CHECKPOINT_DEFAULTS)
    example = EXAMPLE.read_text(encoding="utf-8")
    document = tomllib.loads(re.sub(rf"^# ({keys}) =", r"\1 =", example, flags=re.MULTILINE))
    [model] = document["models"]
    others = {key: value for key, value in model.items() if key not in CHECKPOINT_DEFAULTS}
    assert Config.parse(document | {"models": [others]}) == Config()
    assert Config.parse(document).models[0].model_fields_set >= CHECKPOINT_DEFAULTS
    assert document.keys() == Config.model_fields.keys()
    assert document["models"][0].keys() == ModelConfig.model_fields.keys()
    for name, section in dict(Config()).items():
        if isinstance(section, BaseModel):
            assert document[name].keys() == type(section).model_fields.keys()


def test_the_example_names_every_sampler() -> None:
    comment = (
        EXAMPLE.read_text(encoding="utf-8").partition("\n# sampler = ")[0].rpartition("guidance_scale")[2]
    )
    assert set(re.findall(r"[a-z0-9_]+", comment)) >= {sampler.value for sampler in Sampler}


def test_every_key_of_the_example_has_a_comment_above_it() -> None:
    block: list[str] = []
    for line in EXAMPLE.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            block = [line]
        elif "=" in line:
            assert block, f"nothing explains {line}"
        else:
            block = [] if not line else block


def test_the_licence_comes_from_a_worker_where_this_configuration_names_none() -> None:
    offered = ModelConfig(licence="OpenRAIL", licence_link="https://example.org/").offer
    own, other = ModelConfig(licence="MIT"), ModelConfig()
    assert own.with_defaults(offered).offer.licence == "MIT"
    assert own.with_defaults(offered).offer.licence_link == ""
    assert other.with_defaults(offered).offer.licence_link == "https://example.org/"


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        ({"engin": {}}, "engin: there is no key of this name; the nearest is engine."),
        (
            {"engine": {"seats_per_devise": 1}},
            "engine.seats_per_devise: there is no key of this name in [engine]; "
            "the nearest is seats_per_device.",
        ),
        (
            {"models": [{"stepps": 1}]},
            "models[1].stepps: there is no key of this name in [models[1]]; the nearest is max_steps.",
        ),
        (
            {"engine": {"seats_per_device": "2"}},
            "engine.seats_per_device: a whole number is wanted, not “2”.",
        ),
        ({"engine": {"cpu_devices": True}}, "engine.cpu_devices: a whole number is wanted, not true."),
        ({"engine": {"cpu_devices": -1}}, "engine.cpu_devices: 0 is the least, not -1."),
        (
            {"engine": {"device_memory_gib": "80"}},
            "engine.device_memory_gib: a number is wanted, not “80”.",
        ),
        (
            {"engine": {"dtype": "float8"}},
            "engine.dtype: “float8” is none of 'auto', 'float32' or 'bfloat16'.",
        ),
        (
            {"engine": {"fitted_programs": "yes"}},
            'engine.fitted_programs: true, false or "auto" is wanted.',
        ),
        *(
            (
                {"models": [{"guidance_interval": wrong}]},
                "models[1].guidance_interval: two numbers from 0 to 1 are wanted, the parts of the steps "
                "after which guidance starts and, above it, stops, such as [0.0, 0.6].",
            )
            for wrong in ([0.5], [0.6, 0.5], ["0", 1], 0.6)
        ),
        (
            {"models": [{"num_inference_steps": 60, "max_steps": 30}]},
            "models[1].max_steps: 30 is less than num_inference_steps = 60, the default.",
        ),
        (
            {"models": [{"max_steps": 10, "num_inference_steps": 20}]},
            "models[1].max_steps: 10 is less than num_inference_steps = 20, the default.",
        ),
        (
            {"models": [{"sizes": ["130x128"]}]},
            "models[1].sizes: 130x128 cannot be painted: 130 is not a multiple of 8 from 64 to 2048.",
        ),
        (
            {"models": [{"sizes": ["1:1"]}]},
            "models[1].sizes: “1:1” is not a size: write width x height in pixels, such as 512x512.",
        ),
        ({"models": [{"sizes": ["128x128", "128x128"]}]}, "models[1].sizes: “128x128” is named twice."),
        ({"models": [{"sizes": []}]}, "models[1].sizes: at least 1 is wanted, not []."),
        (
            {"models": [{"variant": "fp16"}]},
            "models[1].variant: the bundled demo checkpoint has no variant.",
        ),
        (
            {"models": [{"guidance_scale": float("nan")}]},
            "models[1].guidance_scale: a finite number is wanted, not nan.",
        ),
        (
            {"models": [{"licence": "two\nlines"}]},
            "models[1].licence: a name on one line is wanted, without spaces around.",
        ),
        (
            {"models": [{"licence_link": "https://example.org/"}]},
            "models[1].licence_link: which licence is at this address? Say licence as well.",
        ),
        (
            {"models": [{"licence": "MIT", "licence_link": "example.org"}]},
            "models[1].licence_link: “example.org” is not an address of the form https://host/path.",
        ),
        ({"models": [{}, {}]}, "models[2].name: “demo” is the name of models[1] too."),
        ({"models": []}, "models: at least 1 is wanted, not []."),
        (
            {"discord": {"api_url": "discord.com"}},
            "discord.api_url: this is not an address of the form https://host/path.",
        ),
        (
            {"discord": {"api_url": "https://discord.com/api/v9"}},
            "discord.api_url: this must end in /v10, the version of Discord's API that the bot speaks.",
        ),
        (
            {"discord": {"gateway_url": "https://gateway.discord.gg"}},
            "discord.gateway_url: this is not an address of the form wss://host/path.",
        ),
        (
            {"discord": {"shard_ids": [0]}},
            "discord.shard_ids: which of how many? Say shard_count as well.",
        ),
        (
            {"discord": {"shard_count": 2, "shard_ids": [1, 2]}},
            "discord.shard_ids: 2 is none of the 2 shards, whose numbers begin at 0.",
        ),
        ({"discord": {"shard_count": 2, "shard_ids": [1, 1]}}, "discord.shard_ids: 1 is named twice."),
        ({"discord": {"guild_ids": [5, 5]}}, "discord.guild_ids: 5 is named twice."),
        (
            {"queue": {"database": "mysql://x"}},
            "queue.database: this is not the address of a database this bot can use: "
            "write sqlite+aiosqlite://… or postgresql+asyncpg://….",
        ),
        (
            {"queue": {"database": "postgresql://bot:secret@host/queue"}},
            "queue.database: this is not the address of a database this bot can use: "
            "write sqlite+aiosqlite://… or postgresql+asyncpg://….",
        ),
        (
            {"queue": {"max_waiting_per_user": 3000}},
            "queue.max_waiting: 2000 is less than max_waiting_per_user = 3000.",
        ),
        (
            {"queue": {"roles": [{"role": 5, "weight": 2.0}, {"role": 5, "weight": 3.0}]}},
            "queue.roles: the role 5 is named twice.",
        ),
        (
            {"queue": {"roles": [{"role": 5, "weight": 0.0}]}},
            "queue.roles[1].weight: more than 0 is wanted, not 0.0.",
        ),
    ],
)
def test_a_mistake_is_one_sentence_that_names_its_key(document: dict[str, Any], sentence: str) -> None:
    assert mistakes_in(document) == [sentence]


TOKEN = f"{'MTIz' * 6}.GabCde.{'x' * 38}"


@pytest.mark.parametrize(
    "document",
    [
        {"queue": {"database": ["postgresql://bot:hunter2@host/queue"]}},
        {"queue": {"database": {"url": "postgresql://bot:hunter2@host/queue"}}},
        {"queue": {"database": "postgresql://bot:hunt@hunter2@host/queue"}},
        {"discord": {"api_url": "https://bot:hunter2@proxy.example/api/v9"}},
        {"discord": {"gateway_url": "https://bot:hunter2@proxy.example/"}},
        {"discord": {"token_file": [TOKEN]}},
        {"discord": {TOKEN: ""}},
        {"engine": {"dtype": TOKEN}},
    ],
)
def test_no_mistake_repeats_a_secret(document: dict[str, Any]) -> None:
    said = "\n".join(mistakes_in(document))
    assert not any(secret in said for secret in ("hunter2", TOKEN, TOKEN[:20]))


@pytest.mark.parametrize("pasted", [TOKEN, f"Bot {TOKEN}", "0123456789abcdef" * 4])
def test_a_token_instead_of_its_file_name_is_refused_and_not_repeated(pasted: str) -> None:
    with pytest.raises(ConfigurationError, match="If this is the token itself") as caught:
        DiscordConfig(token_file=pasted).read_token({})
    assert pasted not in str(caught.value)


@pytest.mark.parametrize(
    ("section", "key", "address", "readable"),
    [
        ("discord", "api_url", "http://proxy.example/api/v10", True),
        ("discord", "api_url", "http://127.0.0.1:8080/api/v10", False),
        ("discord", "api_url", "http://[::1]:8080/api/v10", False),
        ("discord", "api_url", "http://localhost:8080/api/v10", False),
        ("discord", "gateway_url", "ws://10.0.0.7/", True),
        ("discord", "gateway_url", "wss://10.0.0.7/", False),
        ("queue", "artifacts", "ftp://files.example/pictures", True),
        ("queue", "artifacts", "var/artifacts", False),
    ],
)
def test_an_unencrypted_address_causes_a_warning(
    section: str, key: str, address: str, *, readable: bool
) -> None:
    warnings = Config.parse({section: {key: address}}).warnings
    assert [warning.partition(" ")[0] for warning in warnings] == [f"{section}.{key}"] * readable


def test_all_mistakes_are_reported_at_once() -> None:
    mistakes = mistakes_in(
        {
            "models": [{"sampler": "eulr", "max_steps": 5, "sizes": ["9x9"]}, {}, 7],
            "queue": {"lease_second": 1, "max_waiting": 1},
            "log": {"level": "loud"},
            "modles": [],
        }
    )
    assert {mistake.split(":")[0] for mistake in mistakes} == {
        "models[2].name",
        "models[1].sampler",
        "models[1].max_steps",
        "models[1].sizes",
        "models[3]",
        "queue.lease_second",
        "queue.max_waiting",
        "log.level",
        "modles",
    }


def test_a_missing_file_and_a_broken_one_are_one_sentence_each(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"nowhere\.toml cannot be read: No such file"):
        Config.load(tmp_path / "nowhere.toml")
    (tmp_path / "broken.toml").write_text("[discord\n")
    with pytest.raises(ConfigurationError, match=r"broken\.toml is not TOML: .*line 1"):
        Config.load(tmp_path / "broken.toml")


def test_the_token_comes_from_its_file_before_the_environment(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("from-file\n")
    from_file = DiscordConfig(token_file=str(tmp_path / "token"))
    assert from_file.read_token({"DISCORD_TOKEN": "from-environment"}) == "from-file"
    assert DiscordConfig().read_token({"DISCORD_TOKEN": " from-environment "}) == "from-environment"


@pytest.mark.parametrize("token", ["two words", "two\nlines", "a\0b", "토큰", "Bot\tx"])
def test_an_invalid_token_is_refused_and_not_repeated(tmp_path: Path, token: str) -> None:
    (tmp_path / "token").write_text(token, encoding="utf-8")
    for config in (DiscordConfig(), DiscordConfig(token_file=str(tmp_path / "token"))):
        with pytest.raises(ConfigurationError, match="is not a token") as caught:
            config.read_token({"DISCORD_TOKEN": token})
        assert token not in str(caught.value)


@pytest.mark.parametrize(
    "written",
    [
        "\ufeffMTIz.a-b_c.def\n",
        '"MTIz.a-b_c.def"',
        "'MTIz.a-b_c.def'\r\n",
        "Bot MTIz.a-b_c.def",
        "DISCORD_TOKEN=MTIz.a-b_c.def",
        'export DISCORD_TOKEN="MTIz.a-b_c.def"',
        '\ufeffBOT_TOKEN = "Bot MTIz.a-b_c.def"',
    ],
)
def test_a_token_that_was_copied_with_its_surroundings_is_found_in_them(tmp_path: Path, written: str) -> None:
    (tmp_path / "token").write_text(written, encoding="utf-8")
    for config in (DiscordConfig(), DiscordConfig(token_file=str(tmp_path / "token"))):
        assert config.read_token({"DISCORD_TOKEN": written}) == "MTIz.a-b_c.def"


@pytest.mark.parametrize(
    "written",
    ['"MTIz.abc', "<MTIz.abc>", "KEY=MTIz.abc", "Bearer MTIz.abc", '""', "Bot MTIz abc", "MTIz.abc;"],
)
def test_a_token_among_other_signs_is_refused_in_one_sentence(tmp_path: Path, written: str) -> None:
    (tmp_path / "token").write_text(written, encoding="utf-8")
    for config in (DiscordConfig(), DiscordConfig(token_file=str(tmp_path / "token"))):
        with pytest.raises(ConfigurationError, match="is not a token") as caught:
            config.read_token({"DISCORD_TOKEN": written})
        assert "MTIz" not in str(caught.value)
        assert "\n" not in str(caught.value)


OPERATORS_FILES = {
    "config.toml": "[discord]\nuser_install = true\n",
    "styles.toml": '[[styles]]\nname = "ink"\nprompt = "ink"\n',
    "keywords.csv": "1girl,0,5000\n",
    "token": "MTIz.abc\n",
    "database": "sqlite+aiosqlite:///queue.sqlite3",
}


def read_operators_file(file: Path) -> object:
    """Read one of `OPERATORS_FILES` as the bot does."""
    readers: dict[str, Callable[[], object]] = {
        "config.toml": lambda: Config.load(file, {}).discord.user_install,
        "styles.toml": lambda: read_styles(str(file))[0].name,
        "keywords.csv": lambda: len(read_keywords(str(file))),
        "token": lambda: read_token_file(str(file), key="web.token_file"),
        "database": lambda: Config.load(None, {"SDJAX__QUEUE__DATABASE_FILE": str(file)}).queue.database,
    }
    return readers[file.name]()


@pytest.mark.parametrize("name", OPERATORS_FILES)
def test_a_file_with_a_byte_order_mark_is_read_as_without(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(OPERATORS_FILES[name], encoding="utf-8")
    without = read_operators_file(tmp_path / name)
    (tmp_path / name).write_text(
        OPERATORS_FILES[name].replace("\n", "\r\n"), encoding="utf-8-sig", newline=""
    )
    assert read_operators_file(tmp_path / name) == without


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
@pytest.mark.parametrize("name", OPERATORS_FILES)
def test_a_file_in_utf_16_is_refused_with_what_to_do(tmp_path: Path, name: str, encoding: str) -> None:
    (tmp_path / name).write_text(OPERATORS_FILES[name], encoding=encoding)
    with pytest.raises((ConfigurationError, InvalidValue), match="save it as UTF-8") as caught:
        read_operators_file(tmp_path / name)
    assert "codec" not in str(caught.value)


def test_a_missing_token_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="set DISCORD_TOKEN"):
        DiscordConfig().read_token({})
    with pytest.raises(ConfigurationError, match=r"token” cannot be read: No such file"):
        DiscordConfig(token_file=str(tmp_path / "token")).read_token({})
    (tmp_path / "empty").write_text("\n")
    with pytest.raises(ConfigurationError, match="is empty"):
        DiscordConfig(token_file=str(tmp_path / "empty")).read_token({})


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.7", "bot.example"])
def test_pages_that_others_reach_need_a_token(host: str, tmp_path: Path) -> None:
    (mistake,) = mistakes_in({"web": {"host": host, "port": 9100}})
    assert mistake.startswith("web.token_file: others than this machine reach")
    (tmp_path / "token").write_text("secret\n")
    told = {"host": host, "port": 9100, "token_file": str(tmp_path / "token")}
    assert Config.parse({"web": told}).web.read_token() == "secret"


@pytest.mark.parametrize("web", [{"port": 9100}, {"host": "127.0.0.1", "port": 9100}, {"host": "0.0.0.0"}])
def test_pages_on_the_loopback_need_no_token(web: dict[str, object]) -> None:
    assert Config.parse({"web": web}).web.read_token() is None


def test_invalid_names_of_loras_are_refused_by_name() -> None:
    loras = {"ink, fog": "a.safetensors", "ink:2": "b.safetensors", "Ink": "c", "ink": "d", "fog": " "}
    assert mistakes_in({"models": [{"loras": loras}]}) == [
        "models[1].loras: “ink, fog” is no name for a LoRA: up to 60 letters, digits and . _ + - only.",
        "models[1].loras: “ink:2” is no name for a LoRA: up to 60 letters, digits and . _ + - only.",
        "models[1].loras: “ink” is named twice.",
        "models[1].loras: the LoRA “fog” has no file.",
    ]


def test_invalid_controlnets_are_refused_by_name() -> None:
    canny = {"source": "nets/canny", "types": ["edges", "lines"]}
    config = Config.parse({"models": [{"controlnets": {"canny": canny}}]})
    offer = config.models[0].offer
    assert offer.controlnets == ("canny",)
    assert offer.control_types == ((ControlType.EDGES, "canny"), (ControlType.LINES, "canny"))
    assert mistakes_in({"models": [{"controlnets": {"my net": canny, "b": canny}}]}) == [
        "models[1].controlnets: “my net” is no name for a ControlNet: up to 60 letters, digits and . _ + - "
        "only.",
        "models[1].controlnets: 'edges' is named twice: one ControlNet takes each type.",
        "models[1].controlnets: 'lines' is named twice: one ControlNet takes each type.",
    ]
    lacking = {"a": {"source": "", "types": []}, "b": {"source": "net", "types": ["smell"]}, "c": {}}
    said = mistakes_in({"models": [{"controlnets": lacking}]})
    assert all(each.startswith("models[1].controlnets.") for each in said), said
    assert len(said) == 5, said


def test_invalid_names_of_embeddings_are_refused_by_name() -> None:
    embeddings = {"bad hands": "a.safetensors", "Cat": "c", "cat": "d", "fog": " "}
    assert mistakes_in({"models": [{"embeddings": embeddings}]}) == [
        "models[1].embeddings: “bad hands” is no name for an embedding: up to 60 letters, digits and . _ + - "
        "only.",
        "models[1].embeddings: “cat” is named twice.",
        "models[1].embeddings: the embedding “fog” has no file.",
    ]


def test_the_parts_with_int8_weights_are_offered_and_wrong_ones_refused() -> None:
    (model,) = Config.parse({"models": [{"int8": ["denoiser", "text_encoder"]}]}).models
    assert model.offer.int8 == (Int8.DENOISER, Int8.TEXT_ENCODER)
    assert mistakes_in({"models": [{"int8": ["denoiser", "denoiser"]}]}) == [
        "models[1].int8: 'denoiser' is named twice."
    ]
    (said,) = mistakes_in({"models": [{"int8": ["vae"]}]})
    assert said.startswith("models[1].int8")


def test_an_image_encoder_without_an_image_prompt_is_refused() -> None:
    assert mistakes_in({"models": [{"image_encoder": "image_encoder"}]}) == [
        "models[1].image_encoder: without an image_prompt no image encoder is used."
    ]


def test_a_key_without_its_whole_name_is_met_with_the_keys_that_have_that_word() -> None:
    assert mistakes_in({"models": [{"steps": 4, "samplr": "ddim"}]}) == [
        "models[1].steps: there is no key of this name in [models[1]]; "
        "near it are num_inference_steps and max_steps.",
        "models[1].samplr: there is no key of this name in [models[1]]; the nearest is sampler.",
    ]


def test_models_of_policies_that_are_not_there_are_told() -> None:
    policy = {"models": ["nope"], "bounds": {"models": ["tpyo", "demo", "*"]}}
    assert Config.parse({"policy": policy}).warnings == [
        "policy.models: there is no model “nope” here.",
        "policy.bounds.models: there is no model “tpyo” here.",
    ]


def test_policies_have_a_value_for_each_level() -> None:
    assert mistakes_in({"models": [{"flagged": "hide"}]}) == [
        "models[1].flagged: “hide” is none of 'withhold', 'hold', 'spoiler' or 'show'."
    ]
    assert mistakes_in({"policy": {"flagged": [], "bounds": {"flagged": ["show", "hold"]}}}) == [
        "policy.bounds.flagged: three values are wanted, for the levels mild, explicit and extreme, or none.",
    ]


@pytest.mark.parametrize(
    ("languages", "sentence"),
    [
        ({"Omar": "ar"}, "discord.languages.Omar: a whole number is wanted, not “Omar”."),
        ({"0": "ar"}, "discord.languages.0: 1 is the least, not “0”."),
        ({"7": "fr"}, "discord.languages.7: “fr” is none of 'en', 'ko', 'zh' or 'ar'."),
    ],
)
def test_languages_belong_to_user_ids(languages: dict[str, str], sentence: str) -> None:
    assert mistakes_in({"discord": {"languages": languages}}) == [sentence]
