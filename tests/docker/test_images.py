"""The images and the compose file: linted and parsed, since no engine runs here. What they promise is looked up."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from drsr.flows.nightly import nightly
from drsr.settings import Settings
from scripts.code_map import ROOT
from tests.flows.guide import server_settings

FOLDER = ROOT / "docker"
DOCKERFILES = sorted(FOLDER.glob("*.Dockerfile"))
COMPOSE: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text())
SERVICES: dict[str, Any] = COMPOSE["services"]
WRITTEN = {"HOME", "PREFECT_HOME", "DRSR_CACHE"}
"""Variables that name folders to write to."""
VARIABLE = re.compile(r"\$\{(\w+)(?::[?-][^}]*)?\}")


def instructions(dockerfile: Path) -> list[tuple[str, str]]:
    """(instruction, what follows) in order, continued lines joined."""
    joined = dockerfile.read_text().replace("\\\n", " ")
    lines = [line.strip() for line in joined.splitlines() if line.strip() and not line.startswith("#")]
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in lines)]


def of(dockerfile: Path, word: str) -> list[str]:
    return [rest for found, rest in instructions(dockerfile) if found == word]


def test_there_are_images() -> None:
    assert [path.stem for path in DOCKERFILES] == ["decide", "server", "worker"]


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.stem)
def test_the_linter_has_nothing_to_say(dockerfile: Path) -> None:
    linter = Path(sys.executable).parent / "hadolint"
    command = [str(linter), "--config", str(ROOT / ".hadolint.yaml"), str(dockerfile)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_linter_sees_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM python:latest\nRUN cd /tmp && apt-get install curl\n")
    linter = Path(sys.executable).parent / "hadolint"
    assert subprocess.run([linter, tmp_path / "Dockerfile"], capture_output=True).returncode != 0


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.stem)
def test_every_run_line_is_a_command_of_the_makefile(dockerfile: Path) -> None:
    lines = of(dockerfile, "RUN")
    extras = re.search(r"'\.\[(.*)\]'", lines[-1])
    assert extras is not None
    command = ["make", "--dry-run", "install", "PYTHON=python", f"EXTRAS={extras[1]}"]
    made = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    assert set(lines) <= set(made)


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.stem)
def test_bases_are_pinned_nobody_is_root_and_health_is_checked(dockerfile: Path) -> None:
    assert of(dockerfile, "ARG")[0] == "BASE_IMAGE=python:3.11.14-slim-bookworm"
    stages = {name.split(" AS ")[-1] for name in of(dockerfile, "FROM")}
    assert all(base.split(" AS ")[0] in {"${BASE_IMAGE}", *stages} for base in of(dockerfile, "FROM"))
    assert of(dockerfile, "USER") == ["10001:10001"]
    assert len(of(dockerfile, "HEALTHCHECK")) == 1


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.stem)
def test_what_is_copied_is_there_and_not_ignored(dockerfile: Path) -> None:
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = [line.split()[:-1] for line in of(dockerfile, "COPY") if not line.startswith("--from")]
    for name in (name for names in copied for name in names):
        assert (ROOT / name).exists()
        assert name in allowed


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.stem)
def test_what_a_link_leads_to_is_copied_as_well(dockerfile: Path) -> None:
    """In the stage that installs: pip packs what the links in drsr/ lead to, and without it ends."""
    links = [path for path in (ROOT / "drsr").iterdir() if path.is_symlink()]
    assert links
    lines = instructions(dockerfile)
    until = next(place for place, (word, _) in enumerate(lines) if word == "RUN")
    copied = {name for word, rest in lines[:until] if word == "COPY" for name in rest.split()[:-1]}
    assert {str(path.resolve().relative_to(ROOT.resolve())) for path in links} <= copied


def test_services_are_built_from_what_is_here_or_pinned() -> None:
    for name, service in SERVICES.items():
        if "image" in service:
            chosen = re.fullmatch(r"\$\{\w+_IMAGE:-([\w./-]+:[\w.-]*\d[\w.-]*)\}", service["image"])
            assert chosen, f"{name} is not pinned, or nobody can name a digest"
            continue
        dockerfile = ROOT / service["build"]["dockerfile"]
        stages = [line.split(" AS ")[-1] for line in of(dockerfile, "FROM") if " AS " in line]
        assert service["build"].get("target", stages[0]) in stages
        assert (FOLDER / service["build"]["context"]).resolve() == ROOT


def test_services_wait_for_what_is_healthy() -> None:
    for service in SERVICES.values():
        for name, condition in service.get("depends_on", {}).items():
            wanted = condition["condition"]
            other = SERVICES[name]
            if wanted == "service_healthy":
                assert "healthcheck" in other or of(ROOT / other["build"]["dockerfile"], "HEALTHCHECK")
            else:
                assert (wanted, other["restart"]) == ("service_completed_successfully", "no")


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_is_watched_unless_it_runs_once(name: str) -> None:
    service = SERVICES[name]
    own = service.get("healthcheck", {})
    if own.get("disable"):
        assert service["restart"] == "no", "only what ends by itself needs no health check"
        return
    test = own.get("test") if own else of(ROOT / service["build"]["dockerfile"], "HEALTHCHECK")
    assert test
    assert service["restart"] == "unless-stopped"


MAPPING = {"type": "object"}
WORDS = {"type": "array", "items": {"type": "string"}, "minItems": 1, "uniqueItems": True}
COMMAND = {"type": "array", "items": {"type": "string"}, "minItems": 1}
DURATION = {"type": "string", "pattern": r"^(\d+(us|ms|s|m|h))+$"}
HEALTH = {
    "properties": {
        "test": COMMAND | {"contains": {"enum": ["CMD", "CMD-SHELL"]}},
        **dict.fromkeys(("interval", "timeout", "start_period"), DURATION),
        "retries": {"type": "integer", "minimum": 1},
        "disable": {"const": True},
    },
    "oneOf": [{"required": ["test", "interval", "timeout"]}, {"required": ["disable"]}],
    "additionalProperties": False,
}
SERVICE = {
    "type": "object",
    "properties": {
        "image": {"type": "string", "pattern": r"^\$\{\w+_IMAGE:-[\w./-]+:[\w.-]*\d[\w.-]*\}$"},
        "build": {
            "properties": dict.fromkeys(("context", "dockerfile", "target"), {"type": "string"}),
            "required": ["context", "dockerfile"],
            "additionalProperties": False,
        },
        "command": COMMAND,
        "user": {"type": "string", "pattern": r"^[1-9]\d*:[1-9]\d*$"},
        "environment": {"type": "object", "additionalProperties": {"type": "string"}},
        "volumes": WORDS,
        "ports": WORDS,
        "profiles": WORDS,
        "cap_drop": {"const": ["ALL"]},
        "security_opt": {"const": ["no-new-privileges:true"]},
        "restart": {"enum": ["no", "unless-stopped"]},
        "healthcheck": HEALTH,
        "depends_on": {
            "additionalProperties": {
                "properties": {"condition": {"enum": ["service_healthy", "service_completed_successfully"]}},
                "required": ["condition"],
                "additionalProperties": False,
            }
        },
        "deploy": MAPPING,
    },
    "oneOf": [{"required": ["image", "user"]}, {"required": ["build"]}],
    "required": ["cap_drop", "security_opt", "restart"],
    "additionalProperties": False,  # so neither privileged, nor network_mode, nor a key that is mistyped
}
FILE = {
    "type": "object",
    "properties": {
        "name": {"const": "drsr"},
        "services": {"additionalProperties": SERVICE},
        "volumes": {"additionalProperties": {"type": "null"}},
    },
    "patternProperties": {"^x-": MAPPING},
    "required": ["services"],
    "additionalProperties": False,
}
"""Of the Compose specification only what we use, and of that only what we allow."""


def complaints(document: dict[str, Any]) -> list[str]:
    return [error.message for error in jsonschema.Draft202012Validator(FILE).iter_errors(document)]


def test_the_compose_file_is_of_the_form_that_we_allow() -> None:
    jsonschema.Draft202012Validator.check_schema(FILE)
    assert complaints(COMPOSE) == []


@pytest.mark.parametrize(
    "change",
    [
        {"privileged": True},
        {"network_mode": "host"},
        {"healtcheck": {"disable": True}},
        {"user": "0:0"},
        {"image": "postgres:latest"},
        {"image": "postgres"},
        {"healthcheck": {"test": ["CMD", "true"]}},
        {"healthcheck": {"test": "true", "interval": "5s", "timeout": "5s"}},
        {"environment": {"PORT": 5432}},
        {"depends_on": {"store": {"condition": "service_started"}}},
        {"cap_drop": []},
        {"build": {"context": ".."}},
    ],
    ids=str,
)
def test_what_would_be_seen(change: dict[str, Any]) -> None:
    services = {**SERVICES, "postgres": SERVICES["postgres"] | change}
    assert complaints({**COMPOSE, "services": services})


def test_what_asks_for_no_password_is_published_to_this_machine_alone() -> None:
    """In the compose file and in every example."""
    ports = [port for service in SERVICES.values() for port in service.get("ports", ())]
    assert ports
    texts = [*DOCKERFILES, *(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]
    ports += [found for text in texts for found in re.findall(r"docker run .*?-p (\S+)", text.read_text())]
    assert all(port.startswith("127.0.0.1:") for port in ports), ports


def test_no_service_is_root_or_can_become_it() -> None:
    for name, service in SERVICES.items():
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        if "image" in service:
            assert int(service["user"].split(":")[0]) > 0, name
        else:
            assert "user" not in service, f"{name}: the image's own user is not root"


def test_secrets_come_from_the_environment() -> None:
    example = dict(
        line.split("=") for line in (FOLDER / "example.env").read_text().splitlines() if not line.startswith("#")
    )
    assert set(example.values()) == {""}
    assert set(VARIABLE.findall((FOLDER / "compose.yaml").read_text())) == set(example)
    for service in SERVICES.values():
        for variable, value in service.get("environment", {}).items():
            if re.search("PASSWORD|SECRET|KEY", variable):
                assert VARIABLE.fullmatch(str(value)), variable
            for password in re.findall(r"://\w+:([^@]+)@", str(value)):
                assert VARIABLE.fullmatch(password), variable
    assert "/docker/.env" in (ROOT / ".gitignore").read_text().splitlines()


def test_volumes_are_declared_and_ports_are_for_this_machine() -> None:
    for service in SERVICES.values():
        for volume in service.get("volumes", []):
            source = VARIABLE.sub("./", volume).split(":")[0]
            assert source.startswith("./") or source in COMPOSE["volumes"]
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))


def volumes(dockerfile: Path) -> set[str]:
    return {path for line in of(dockerfile, "VOLUME") for path in json.loads(line)}


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.stem)
def test_volumes_belong_to_the_user(dockerfile: Path) -> None:
    """A folder that an image has not got comes with a volume of root's."""
    lines = instructions(dockerfile)
    after = lines[lines.index(("USER", "10001:10001")) :]
    assert volumes(dockerfile) <= {path for word, path in after if word == "WORKDIR"}
    written = {value for name, value in re.findall(r"(\w+)=(\S+)", " ".join(of(dockerfile, "ENV"))) if name in WRITTEN}
    assert written
    assert all(any(Path(path).is_relative_to(volume) for volume in volumes(dockerfile)) for path in written)


def test_what_is_mounted_is_a_volume_of_the_image() -> None:
    for name, service in SERVICES.items():
        if "build" in service:
            places = {volume.removesuffix(":ro").rsplit(":", 1)[1] for volume in service["volumes"]} - {"/policy"}
            assert places <= volumes(ROOT / service["build"]["dockerfile"]), name


def test_the_server_keeps_what_a_restart_must_not_lose() -> None:
    """As the guide says: else every running flow run is ended soon after the server was started again."""
    server = FOLDER / "server.Dockerfile"
    (told,) = (dict(word.split("=", 1) for word in line.split()) for line in of(server, "ENV"))
    assert server_settings().items() <= told.items()
    assert len(server_settings()) == 1
    assert told["PREFECT_HOME"] in volumes(server)
    module = import_module(server_settings()["PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE"])
    assert hasattr(module, "ConcurrencyLeaseStorage"), "what Prefect looks for in it"


def test_a_night_publishes_to_a_volume() -> None:
    """Its index, and the pages about the data."""
    worker = FOLDER / "worker.Dockerfile"
    (deployed,) = [
        one for one in yaml.safe_load((ROOT / "prefect.yaml").read_text())["deployments"] if one["name"] == "nightly"
    ]
    home = re.search(r"DRSR_HOME=(\S+)", " ".join(of(worker, "ENV")))
    assert home is not None
    mounted = [volume.split(":") for volume in SERVICES["worker-cpu"]["volumes"]]
    for folder in (inspect.signature(nightly.fn).parameters["index"].default, deployed["parameters"]["docs"]):
        left = Path(of(worker, "WORKDIR")[-1]) / folder
        assert left.is_relative_to(home[1])
        assert any(left.is_relative_to(volume) for volume in volumes(worker))
        assert [source for source, place in mounted if left.is_relative_to(place)] == ["results"]


def pool(service: dict[str, Any]) -> str | None:
    """The pool that a worker polls: the one it is told, or its image's."""
    if "worker.Dockerfile" not in service.get("build", {}).get("dockerfile", "") or "command" in service:
        return None
    told = service["environment"].get("DRSR_POOL")
    return str(told) if told else {"cpu": "cpu", "cuda": "gpu"}[service["build"]["target"]]


@pytest.mark.parametrize("profile", ["cpu", "gpu"])
def test_every_pool_has_one_kind_of_worker(profile: str) -> None:
    """A CPU that polls the pool beside a GPU would take shards from it."""
    started = [one for one in SERVICES.values() if profile in one.get("profiles", [profile])]
    assert sorted(filter(None, map(pool, started))) == ["cpu", "gpu"]
    assert f"--profile {profile} up" in (FOLDER / "compose.yaml").read_text()
    assert f"--profile {profile} up" in (ROOT / "docs" / "guides" / "nightly.md").read_text()


def test_what_prepares_the_installation_are_commands() -> None:
    from drsr.cli import build_parser

    parser = build_parser()
    lines = SERVICES["prepare"]["command"][-1].splitlines()
    mine = [line.split()[1:] for line in lines if line.startswith("drsr ")]
    assert len(mine) == 2
    for arguments in mine:
        assert parser.parse_args(arguments).run


def filled_in(value: str, given: dict[str, str]) -> str:
    """A value of the compose file with the variables that docker/.env gives, as Compose fills them in."""
    empty = re.compile(r"\$\{(\w+):-([^}]*)\}")
    return empty.sub(lambda found: given.get(found[1]) or found[2], value).replace("$$", "$")


def test_the_language_model_is_chosen_in_the_environment() -> None:
    """Every service that computes is told the same, and the model is fetched once, before any of them starts."""
    chosen = {"DRSR_BACKBONE": "hf:Qwen/Qwen3.5-9B@main", "DRSR_DTYPE": "bfloat16", "HF_HUB_OFFLINE": "0"}
    computing = ["prepare", "worker-cpu", "worker-shards", "worker-gpu"]
    for name in computing:
        environment = SERVICES[name]["environment"]
        assert {key: filled_in(environment[key], chosen) for key in chosen} == chosen, name
        usual = {key: filled_in(environment[key], {}) for key in (*chosen, "DRSR_LABEL_MEMORY_MB")}
        places = {"catalog_url": "sqlite://", "artifact_root": "here"}
        given = {key.removeprefix("DRSR_").lower(): value for key, value in usual.items() if key.startswith("DRSR_")}
        assert Settings(**places, **given) == Settings(**places), "what is left empty is the default"
        assert usual["HF_HUB_OFFLINE"] == "1", "nobody asks the hub unless told to"
    script = filled_in(SERVICES["prepare"]["command"][-1], chosen)
    assert 'drsr backbone fetch "$DRSR_BACKBONE"\n' in script
    assert "models:/cache" in SERVICES["prepare"]["volumes"]


@pytest.mark.parametrize("name", ["decide", "worker"])
def test_what_the_hub_gives_is_kept_in_the_volume(name: str) -> None:
    """The hub's library keeps it below the home folder."""
    assert "HOME=/cache" in " ".join(of(FOLDER / f"{name}.Dockerfile", "ENV")).split()


@pytest.mark.parametrize(("said", "offline"), [("1", True), ("0", False)])
def test_the_hubs_library_does_what_it_is_told(said: str, offline: bool) -> None:
    command = [sys.executable, "-c", "import huggingface_hub.constants as found; print(found.HF_HUB_OFFLINE)"]
    done = subprocess.run(command, env={"HF_HUB_OFFLINE": said}, check=True, capture_output=True, text=True)
    assert done.stdout == f"{offline}\n"
