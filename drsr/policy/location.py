"""Where a policy is: a folder, a wheel, or a package that pip installed. All are read and checked alike.

    read_found("policies/2026.11.16")                            a folder that `Policy.save` wrote
    read_found("drsr_policy-2026.11.16-py3-none-any.whl")        a wheel, read without unpacking or installing it
    read_found("drsr_policy")                                    the installed package, read without importing it
    read_found(None)                                             the same

Nothing that belongs to the policy is run.
"""

from __future__ import annotations

import csv
import importlib.util
from pathlib import Path

from drsr.errors import InputError, PolicyCorrupt
from drsr.policy.folder import PolicyFiles, read_contents, read_policy
from drsr.policy.wheel_file import read_wheel, record_hash

PACKAGE = "drsr_policy"
"""What a policy's package is called."""
_HINT = "install the policy again: pip install --force-reinstall --no-deps drsr-policy"


def read_found(location: str | None) -> PolicyFiles:
    """Read and check the policy at a location; by default the installed one."""
    if location is None:
        return read_installed(_installed_folder(PACKAGE))
    path = Path(location)
    if path.is_dir():
        return read_policy(path)
    if path.is_file():
        return read_wheel_policy(_bytes_of(path), str(path))
    if location.isidentifier():
        return read_installed(_installed_folder(location))
    raise InputError(
        "there is no such folder or wheel",
        where=location,
        hint="name a policy's folder, its wheel, or the installed package drsr_policy",
    )


def read_installed(folder: Path) -> PolicyFiles:
    """Read and check an installed policy: its files by their manifest, and what pip wrote beside them by its RECORD."""
    files = read_policy(folder)
    dist_info = folder.parent / f"{PACKAGE}-{files.numbers.version}.dist-info"
    if dist_info.is_dir():  # not where somebody unpacked the wheel's package elsewhere
        _check_record(folder, dist_info, files.names)
    return files


def _installed_folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)  # finds it, does not run it
    if spec is None or not spec.submodule_search_locations:
        raise InputError(
            f"no package {package} is installed",
            hint="name a policy's folder or wheel, or install one: pip install drsr-policy",
        )
    return Path(next(iter(spec.submodule_search_locations)))


def read_wheel_policy(data: bytes, where: str) -> PolicyFiles:
    """The policy in a wheel's bytes. The wheel holds nothing that its manifests do not know."""
    inside = f"{PACKAGE}/"
    files = read_wheel(data, where)
    contents = {name.removeprefix(inside): content for name, content in files.items() if name.startswith(inside)}
    policy = read_contents(contents, f"{where}/{PACKAGE}")
    expected = f"{PACKAGE}-{policy.numbers.version}.dist-info/"
    strays = [name for name in files if not name.startswith((inside, expected))]
    unlisted = sorted(set(contents) - policy.names)
    if strays or unlisted:
        raise PolicyCorrupt(f"holds {(strays + unlisted)[0]}, which its manifest does not know", where=where)
    return policy


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=str(path)) from None


def _check_record(folder: Path, dist_info: Path, required: set[str]) -> None:
    """PolicyCorrupt unless every file that pip recorded with a hash still has it."""
    record = dist_info / "RECORD"
    listed = set()
    try:
        with record.open(encoding="utf-8", newline="") as file:
            for name, hashed, size in csv.reader(file):
                path = folder.parent / name
                if hashed or path == record:  # what pip compiled, and RECORD itself, have no hash there
                    listed.add(name)
                data = path.read_bytes() if hashed else b""
                if hashed and (record_hash(data), str(len(data))) != (hashed, size):
                    raise PolicyCorrupt("has another hash than when it was installed", where=str(path), hint=_HINT)
    except (OSError, ValueError, csv.Error) as error:
        raise PolicyCorrupt(f"what it lists cannot be checked: {error}", where=str(record), hint=_HINT) from None
    needed = [f"{folder.name}/{name}" for name in sorted(required)]
    needed += [f"{dist_info.name}/{name}" for name in ("METADATA", "WHEEL", "RECORD")]
    missing = [name for name in needed if name not in listed]
    if missing:
        raise PolicyCorrupt(f"does not list {missing[0]}", where=str(record), hint=_HINT)
