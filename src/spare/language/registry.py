"""Domains by name, so that a data or model file finds its own: registered by a program, or installed with a package.

A package offers domains as entry points of the group `spare.domains`:

    [project.entry-points."spare.domains"]
    push = "spare.lab.worlds.push:domain"

A file holds a name and nothing else. The name is looked up among registered domains and installed packages, never
imported, so no file can name code; a folder that merely lies on the path (such as the current one) does not count.
"""

from __future__ import annotations

import functools
import importlib.metadata
import site
import sysconfig

from spare.errors import DefinitionError
from spare.language.domain import Domain, expect_domain

GROUP = "spare.domains"
_registered: dict[str, Domain] = {}


def register(domain: Domain) -> Domain:
    """Make a domain known by its name in this process, and return it; it comes before an installed one."""
    _registered[expect_domain(domain).name] = domain
    return domain


def find_domain(name: str) -> Domain | None:
    """The domain that is registered or installed under this name, or None."""
    if name in _registered or name not in _installed():
        return _registered.get(name)
    found = importlib.metadata.EntryPoint(name, _installed()[name], GROUP).load()
    if not isinstance(found, Domain) or found.name != name:
        raise DefinitionError(f"the entry point {name!r} of {GROUP} is not a domain of that name: {found!r}")
    return found


def domain_names() -> tuple[str, ...]:
    """The names that `find_domain` knows, sorted; nothing is imported to find out."""
    return tuple(sorted({*_registered, *_installed()}))


def ships(name: str) -> bool:
    """Whether `find_domain` knows this name; nothing is imported to find out."""
    return name in _registered or name in _installed()


@functools.cache
def _installed() -> dict[str, str]:
    """Where the domains of installed packages are, `module:attribute` by name; a name that two claim is an error."""
    places = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *site.getsitepackages()]
    places += [site.getusersitepackages()] if site.ENABLE_USER_SITE else []
    found: dict[str, str] = {}
    for package in importlib.metadata.distributions(path=list(dict.fromkeys(places))):
        for entry in package.entry_points.select(group=GROUP):
            if found.setdefault(entry.name, entry.value) != entry.value:
                raise DefinitionError(
                    f"domain {entry.name!r} is offered as {found[entry.name]} and as {entry.value}; "
                    "uninstall one of the two packages"
                )
    return found
