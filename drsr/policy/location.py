"""The location of a policy: a folder, a wheel, or an installed package. All are read and checked the same way.

    read_found("policies/2026.11.16")                            a folder that `Policy.save` wrote
    read_found("drsr_policy-2026.11.16-py3-none-any.whl")        a wheel, read without unpacking or installing it
    read_found("drsr-policy")                                    the installed package, read without importing it
    read_found(None)                                             the light one if it is installed, else the full one

A light policy has a package of its own, so that both can be installed together. Neither can take the other's name: that
would silently change which policy an agent decides with. Nothing that belongs to the policy is run, and the few lines
of code in its package must be those that drsr wrote (`generated.py`).
"""

from __future__ import annotations

import csv
import importlib.util
from pathlib import Path

from drsr.decide.numbers import PolicyNumbers
from drsr.errors import InputError, PolicyCorrupt, PolicyMismatch
from drsr.policy.folder import PolicyFiles, read_contents, read_policy
from drsr.policy.generated import CODE_FILE, HINT, generated_code, refuse_changed, refuse_code
from drsr.policy.signature import read_trusted_key, refuse_unsigned
from drsr.policy.wheel_file import read_wheel, record_hash

PACKAGE = "drsr_policy"
"""Package name of a full policy."""
LIGHT_PACKAGE = "drsr_policy_light"
"""Package name of a light policy."""
LIGHT_PROJECT = "drsr-policy-light"
"""Its name for pip."""
_INSTALL = "name a policy's folder or wheel, or install one: "
_HINT = "install the policy again: pip install --force-reinstall --no-deps {}"


def package_name(numbers: PolicyNumbers) -> str:
    """Return the package name of a policy with these numbers."""
    return PACKAGE if numbers.light is None else LIGHT_PACKAGE


def project_name(numbers: PolicyNumbers) -> str:
    """Return the project's name as pip writes it."""
    return package_name(numbers).replace("_", "-")


def is_installed(package: str) -> bool:
    """Return whether a package of this name can be found; it is not run."""
    return importlib.util.find_spec(package) is not None


def install_line(project: str, index: str = "file:///PATH/OF/policies") -> str:
    """Return the command that installs a policy from its own index and, unless pip's configuration names extra indexes,
    looks nowhere else.

    A stranger's package of the same name and a higher version may be on a public index.
    """
    return f"pip install --no-deps --index-url {index} {project}"


def read_found(location: str | None, *, full_first: bool = False) -> PolicyFiles:
    """Read and check the policy at a location; by default the installed one.

    If both are installed it is the light one, which decides in milliseconds, unless `full_first`: the caller has a
    device for the language model, or names one.
    """
    if location is None:
        light = is_installed(LIGHT_PACKAGE) and not (full_first and is_installed(PACKAGE))
        if not light and not is_installed(PACKAGE):
            raise InputError("no policy is installed", hint=_INSTALL + install_line(LIGHT_PROJECT))
        return read_installed(_installed_folder(LIGHT_PACKAGE if light else PACKAGE))
    path = Path(location)
    if path.is_dir():
        files = read_policy(path)
        _refuse_misnamed(files.numbers, path.name, str(path))
        _refuse_code_in(path, files)
        return files
    if path.is_file():
        return _read_wheel_file(_bytes_of(path), path)
    package = location.replace("-", "_")  # pip's name of a package and Python's
    if package.isidentifier():
        return read_installed(_installed_folder(package))
    raise InputError(
        "there is no such folder or wheel",
        where=location,
        hint="name a policy's folder, its wheel, or the installed package drsr-policy; drsr policy list shows them",
    )


def read_signed(location: str | None, trusted_key: Path) -> PolicyFiles:
    """Read and check the policy in a wheel, once the signature next to it is verified with the trusted key.

    The verified bytes are the ones read.
    """
    key = read_trusted_key(trusted_key)
    path = Path(location) if location is not None else None
    if path is None or not path.is_file():
        raise InputError(
            "a signature is of a wheel, and this is not one",
            where=location or "the installed policy",
            hint="name the wheel: pip download --no-deps drsr-policy brings it; its .sig comes from the same folder",
        )
    data = _bytes_of(path)
    refuse_unsigned(data, path, key)
    return _read_wheel_file(data, path)


def read_installed(folder: Path) -> PolicyFiles:
    """Read and check an installed policy: its files by their manifest, and the files that pip added by its RECORD."""
    files = read_policy(folder)
    _refuse_misnamed(files.numbers, folder.name, str(folder))
    _refuse_code_in(folder, files)
    dist_info = folder.parent / f"{package_name(files.numbers)}-{files.numbers.version}.dist-info"
    if dist_info.is_dir():  # not where somebody unpacked the wheel's package elsewhere
        _check_record(folder, dist_info, files.names)
        told = {name: (dist_info / name).read_bytes() for name in _TOLD_PIP if (dist_info / name).is_file()}
        _refuse_changed(files, told, str(folder))
    return files


_TOLD_PIP = ("METADATA", "WHEEL", "entry_points.txt")
"""Metadata files that came with the wheel; the installer wrote the rest."""


def _refuse_changed(files: PolicyFiles, dist_info: dict[str, bytes], where: str) -> None:
    """Raise PolicyCorrupt unless the code of the package, and its metadata for pip, are what drsr writes for this
    policy."""
    refuse_changed(files.numbers, package_name(files.numbers), files.others, dist_info, where)


def _refuse_code_in(folder: Path, files: PolicyFiles) -> None:
    """Raise PolicyCorrupt if a folder holds code other than the generated lines, listed or not."""
    there = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]
    refuse_code([str(path) for path in there if path.parts[0] != "__pycache__" and str(path) != CODE_FILE], str(folder))
    if (folder / CODE_FILE).is_file():
        known = generated_code(files.numbers, package_name(files.numbers), str(folder))
        if (folder / CODE_FILE).read_bytes() not in known:
            raise PolicyCorrupt(f"{CODE_FILE} is not the one that drsr writes", where=str(folder), hint=HINT)


def _refuse_misnamed(numbers: PolicyNumbers, name: str, where: str) -> None:
    """Raise PolicyMismatch if a light policy has the name of a full one's package, or the other way round."""
    if name in (PACKAGE, LIGHT_PACKAGE) and name != package_name(numbers):
        raise PolicyMismatch(
            f"holds a {numbers.kind} policy, whose package is called {package_name(numbers)}, under the name {name}",
            where=where,
            hint=f"get it as it was published: {install_line(project_name(numbers))}",
        )


def _installed_folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)  # finds it, does not run it
    if spec is None or not spec.submodule_search_locations:
        raise InputError(
            f"no package {package} is installed",
            hint=_INSTALL + install_line("drsr-policy" if package == PACKAGE else LIGHT_PROJECT),
        )
    return Path(next(iter(spec.submodule_search_locations)))


def read_wheel_policy(data: bytes, where: str) -> PolicyFiles:
    """Return the policy in a wheel's bytes. The wheel holds nothing that its manifests do not know."""
    files = read_wheel(data, where)
    package = LIGHT_PACKAGE if any(name.startswith(f"{LIGHT_PACKAGE}/") for name in files) else PACKAGE
    inside = f"{package}/"
    contents = {name.removeprefix(inside): content for name, content in files.items() if name.startswith(inside)}
    policy = read_contents(contents, f"{where}/{package}")
    _refuse_misnamed(policy.numbers, package, where)
    expected = f"{package}-{policy.numbers.version}.dist-info/"
    strays = [name for name in files if not name.startswith((inside, expected))]
    unlisted = sorted(set(contents) - policy.names)
    if strays or unlisted:
        raise PolicyCorrupt(f"holds {(strays + unlisted)[0]}, which its manifest does not know", where=where)
    _refuse_changed(policy, {n.removeprefix(expected): files[n] for n in files if n.startswith(expected)}, where)
    return policy


def _read_wheel_file(data: bytes, path: Path) -> PolicyFiles:
    files = read_wheel_policy(data, str(path))
    _refuse_misnamed(files.numbers, path.name.partition("-")[0], str(path))
    return files


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=str(path)) from None


def _check_record(folder: Path, dist_info: Path, required: set[str]) -> None:
    """Raise PolicyCorrupt unless every file that pip recorded with a hash still has it."""
    record = dist_info / "RECORD"
    hint = _HINT.format(folder.name.replace("_", "-"))
    listed = set()
    try:
        with record.open(encoding="utf-8", newline="") as file:
            for name, hashed, size in csv.reader(file):
                path = folder.parent / name
                if hashed or path == record:  # what pip compiled, and RECORD itself, have no hash there
                    listed.add(name)
                data = path.read_bytes() if hashed else b""
                if hashed and (record_hash(data), str(len(data))) != (hashed, size):
                    raise PolicyCorrupt("has another hash than when it was installed", where=str(path), hint=hint)
    except (OSError, ValueError, csv.Error) as error:
        raise PolicyCorrupt(f"what it lists cannot be checked: {error}", where=str(record), hint=hint) from None
    needed = [f"{folder.name}/{name}" for name in sorted(required)]
    needed += [f"{dist_info.name}/{name}" for name in ("METADATA", "WHEEL", "RECORD")]
    missing = [name for name in needed if name not in listed]
    if missing:
        raise PolicyCorrupt(f"does not list {missing[0]}", where=str(record), hint=hint)
