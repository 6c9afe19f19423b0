"""List what is in an image or in a policy's wheel: CycloneDX documents below var/sbom. `make sbom`.

An image's list is what pip installs for its extras, with the versions and licences that are installed here; a wheel's
list names its files with their hashes, and the drsr that it asks for. Nothing is fetched, and no time gets in: the same
installation gives the same bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from drsr.policy.generated import requirement
from drsr.policy.location import project_name, read_wheel_policy
from drsr.policy.wheel_file import read_wheel

ROOT = Path(__file__).parents[1]
EXTRAS = re.compile(r"\.\[([a-z,-]+)\]")


def images() -> dict[str, tuple[str, ...]]:
    """Return the extras that each image installs, by the name of its Dockerfile."""
    found = {}
    for path in sorted((ROOT / "docker").glob("*.Dockerfile")):
        named = EXTRAS.search(path.read_text())
        if named is not None:
            found[path.name.removesuffix(".Dockerfile")] = tuple(named.group(1).split(","))
    return found


def installed_for(extras: Sequence[str]) -> list[importlib.metadata.Distribution]:
    """Return the distributions that drsr with these extras brings, as far as they are installed; sorted by name."""
    found: dict[str, importlib.metadata.Distribution] = {}
    seen: set[tuple[str, str]] = set()
    waiting = [("drsr", extra) for extra in ("", *extras)]
    while waiting:
        name, extra = waiting.pop()
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # for another system or Python
        found[name] = distribution
        for line in distribution.requires or ():
            needed = Requirement(line)
            if needed.marker is None or needed.marker.evaluate({"extra": extra}):
                waiting += [(canonicalize_name(needed.name), asked) for asked in ("", *needed.extras)]
    return [found[name] for name in sorted(found)]


def of_image(name: str, extras: Sequence[str]) -> dict[str, Any]:
    """Return the list of an image."""
    return _document(f"drsr-{name}", "container", [_component(each) for each in installed_for(extras)])


def of_wheel(path: Path) -> dict[str, Any]:
    """Return the list of a policy's wheel, which is checked on the way as whenever one is read."""
    data = path.read_bytes()
    policy = read_wheel_policy(data, str(path))
    files = [
        {"type": "file", "name": name, "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(content).hexdigest()}]}
        for name, content in sorted(read_wheel(data, str(path)).items())
    ]
    needs = {"type": "library", "name": "drsr", "description": requirement(policy.numbers)}
    document = _document(project_name(policy.numbers), "library", [needs, *files])
    about = document["metadata"]["component"]
    about |= {
        "version": policy.numbers.version,
        "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(data).hexdigest()}],
    }
    return document


def _component(distribution: importlib.metadata.Distribution) -> dict[str, Any]:
    about = distribution.metadata
    name = canonicalize_name(about["Name"])
    found = {"type": "library", "name": name, "version": distribution.version}
    found["purl"] = f"pkg:pypi/{name}@{distribution.version}"
    licence = about.get("License-Expression") or about.get("License", "")
    return found | ({"licenses": [{"license": {"name": licence.splitlines()[0]}}]} if licence.strip() else {})


def _document(name: str, kind: str, components: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": kind, "name": name}},
        "components": components,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Write CycloneDX lists of the images, and of a policy's wheel.")
    parser.add_argument("--wheel", type=Path, metavar="FILE", help="a policy's wheel")
    parser.add_argument("--to", type=Path, default=Path("var", "sbom"), metavar="FOLDER")
    options = parser.parse_args(arguments)
    documents = {name: of_image(name, extras) for name, extras in images().items()}
    if options.wheel is not None:
        documents[options.wheel.name.removesuffix(".whl")] = of_wheel(options.wheel)
    options.to.mkdir(parents=True, exist_ok=True)
    for name, document in documents.items():
        path = options.to / f"{name}.cdx.json"
        path.write_text(json.dumps(document, indent=2, sort_keys=True) + "\n")
        print(f"{path}: {len(document['components'])} components")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
