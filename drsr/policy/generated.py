"""The files of a policy's package that are generated: its few lines of code, and the metadata for pip.

They follow from the policy's numbers and its card, so a reader of the package writes them again and compares. A line
added to one of them is an error before any of it can run. Files of earlier versions are kept here as data: a package is
compared with what the version that made it would write.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from drsr.decide.numbers import PolicyNumbers
from drsr.errors import InputError, PolicyCorrupt
from drsr.features.light import LIGHT_VIEW
from drsr.policy.wheel_file import check_version

CODE_FILE = "__init__.py"
CARD_FILE = "MODEL_CARD.md"
HINT = "get the policy again from its publisher, and find out who changed this one"

_INIT = '''\
"""A frozen pruning policy for language-model agents; MODEL_CARD.md beside this file says what it is.

    from {package} import load

    policy = load()
    decision = policy.prune(messages, tools=tools)
"""

from typing import Any

from drsr.golden import Verification
from drsr.installed_policy import load_installed, verify_installed
from drsr.policy import Policy

__all__ = ["__version__", "load", "verify"]
__version__ = "{version}"


def load(**options: Any) -> Policy:
    """The policy, every file checked. Options as for `drsr.load_policy`: backbone, device, dtype, receipts."""
    return load_installed(__file__, **options)


def verify(**options: Any) -> Verification:
    """Its golden requests, decided again; `.passed` says whether all came out as published."""
    return verify_installed(__file__, **options)
'''

_METADATA = """\
Metadata-Version: 2.1
Name: {project}
Version: {version}
Summary: {summary}
Requires-Python: >=3.11
Requires-Dist: {requirement}
Description-Content-Type: text/markdown

"""
"""The card follows."""

_WHEEL = """\
Wheel-Version: 1.0
Generator: drsr
Root-Is-Purelib: true
Tag: py3-none-any
"""

_INITS = (_INIT,)
"""Everything that any version wrote, newest first."""
_CODE_SUFFIXES = (".py", ".pyc", ".pyd", ".so", ".dll", ".dylib", ".pth", ".sh", ".exe")
_DRSR_VERSION = re.compile(r"[0-9]+\.[0-9]+(\.[0-9]+)*((a|b|rc)[0-9]+)?(\.(post|dev)[0-9]+)?")


class Generated(NamedTuple):
    """Generated files by name."""

    package: dict[str, bytes]
    dist_info: dict[str, bytes]


def generated_files(numbers: PolicyNumbers, package: str, card: bytes, init: str = _INIT) -> Generated:
    """Write the generated files of a policy's package of this name, whose card is given."""
    check_version(numbers.version)
    metadata = _METADATA.format(
        project=package.replace("_", "-"),
        version=numbers.version,
        summary=_summary(numbers),
        requirement=requirement(numbers),
    )
    code = init.replace("{version}", numbers.version).replace("{package}", package)
    return Generated(
        {CODE_FILE: code.encode(), "py.typed": b""},
        {"METADATA": metadata.encode() + card, "WHEEL": _WHEEL.encode()},
    )


def refuse_changed(
    numbers: PolicyNumbers,
    package: str,
    found: Mapping[str, bytes],
    dist_info: Mapping[str, bytes],
    where: str,
) -> None:
    """Raise PolicyCorrupt unless the code of a package and its metadata for pip are the generated ones, and nothing
    else is in it.

    `found` are the files of the package, `dist_info` those of its metadata that came with it.
    """
    refuse_code([name for name in found if name != CODE_FILE], where)
    if found.get(CODE_FILE) not in generated_code(numbers, package, where):
        raise PolicyCorrupt(f"{CODE_FILE} is not the one that drsr writes", where=where, hint=HINT)
    expected = generated_files(numbers, package, found.get(CARD_FILE, b"")).dist_info
    for name, data in expected.items():
        if dist_info.get(name) != data:
            raise PolicyCorrupt(f"{name} is not the one that drsr writes for this policy", where=where, hint=HINT)
    strays = sorted(set(dist_info) - set(expected))
    if strays:
        raise PolicyCorrupt(f"tells pip more than drsr does: {strays[0]}", where=where, hint=HINT)


def generated_code(numbers: PolicyNumbers, package: str, where: str) -> list[bytes]:
    """Return the code that a version of drsr wrote for a policy, by version. Raise PolicyCorrupt for numbers that must
    not go into a package: a version with a line of code in it would be copied into the code."""
    try:
        return [generated_files(numbers, package, b"", init).package[CODE_FILE] for init in _INITS]
    except InputError as error:
        raise PolicyCorrupt(error.what, where=where, hint=HINT) from None


def refuse_code(names: list[str], where: str) -> None:
    """Raise PolicyCorrupt if one of these files could be run."""
    code = sorted(name for name in names if name.lower().endswith(_CODE_SUFFIXES))
    if code:
        raise PolicyCorrupt(f"holds code that drsr does not write: {code[0]}", where=where, hint=HINT)


def requirement(numbers: PolicyNumbers) -> str:
    """Return which drsr can run a policy that this one made: up to the next version that may compute otherwise.

    Versions follow Semantic Versioning: before 1.0 a minor version may break, afterwards a major one.
    """
    if not _DRSR_VERSION.fullmatch(numbers.drsr_version):
        raise InputError(f"{numbers.drsr_version!r} is not a version of drsr")
    major, minor, *_ = numbers.drsr_version.split(".")
    following = f"0.{int(minor) + 1}" if major == "0" else str(int(major) + 1)
    extra = "backbone" if numbers.light is None else LIGHT_VIEW
    return f"drsr[{extra}]>={numbers.drsr_version},<{following}"


def _summary(numbers: PolicyNumbers) -> str:
    backbone = _on_one_line(numbers.backbone.name)
    made = f"made with drsr {numbers.drsr_version}"
    if numbers.light is None:
        return f"A frozen pruning policy for language-model agents, {made} for the backbone {backbone}"
    return f"A frozen light pruning policy for language-model agents, {made}; it needs no language model"


def _on_one_line(text: str) -> str:
    """Refuse a value with more than one line: a second line in a header would be another header."""
    if not text.isprintable():
        raise InputError(f"the backbone's name {text!r} cannot be written into a package")
    return text
