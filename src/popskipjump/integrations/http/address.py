"""Address and headers of a server, checked before anything is sent."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote, unquote, urlsplit

from popskipjump.errors import InputError

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?")


def is_url(place: str) -> bool:
    """Whether a text is the address of a server."""
    return place.startswith(("http://", "https://"))


@dataclass(frozen=True)
class Address:
    """A server's scheme, host and port, and a path on it; no credentials, so that it can be shown and saved."""

    origin: str  # "https://host:port"
    path: str  # "/v2/models/mnist"
    loopback: bool

    @classmethod
    def of(cls, url: str) -> Address:
        """Check a URL and take it apart.

        Raises:
            InputError: it is not the address of a server, or it holds credentials, which would end in logs.
        """
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError:
            raise InputError("the URL cannot be read: it must look like https://host:port/v2/models/NAME.") from None
        if parts.scheme not in ("http", "https") or not host or not re.fullmatch(r"[0-9A-Za-z._:%-]+", host):
            raise InputError("the URL must look like https://host:port/v2/models/NAME.")
        if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
            raise InputError(
                f"the URL of {host} must have no user name, password, query or fragment, because URLs end in logs: put "
                'credentials into a header with `secrets={"Authorization": "NAME_OF_AN_ENVIRONMENT_VARIABLE"}`.'
            )
        shown = f"[{host}]" if ":" in host else host
        path = quote(unquote(parts.path), safe="/-._~:@!$&'()*+,;=").rstrip("/")
        return cls(f"{parts.scheme}://{shown}{'' if port is None else f':{port}'}", path, _is_loopback(host))

    def __str__(self) -> str:
        return self.origin + self.path


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def checked_headers(headers: Mapping[str, str] | None) -> dict[str, str]:
    """Headers that may be shown and saved."""
    found = dict(headers or {})
    for name, value in found.items():
        _check_name(name)
        if not isinstance(value, str) or not _VALUE.fullmatch(value):
            raise InputError(f"the value of the header {name} must be printable ASCII without spaces around it.")
        if name.lower() in ("authorization", "proxy-authorization", "cookie") or "key" in name.lower():
            raise InputError(
                f"{name} looks like a credential: name an environment variable that holds it, "
                f'`secrets={{"{name}": "NAME_OF_THE_VARIABLE"}}`, so that it is never logged or saved.'
            )
    return found


def checked_secrets(secrets: Mapping[str, str] | None, address: Address) -> dict[str, str]:
    """Header -> environment variable, checked as far as possible without keeping a value."""
    found = dict(secrets or {})
    for name in found:
        _check_name(name)
    read_secrets(found)
    if found and address.origin.startswith("http:") and not address.loopback:
        raise InputError(f"the credentials would travel to {address.origin} in the clear: use an https address.")
    return found


def read_secrets(secrets: Mapping[str, str]) -> dict[str, str]:
    """Header -> value, from the environment; an error names the variable, and never shows a value."""
    values = {}
    for name, variable in secrets.items():
        value = os.environ.get(variable)
        if not value:
            raise InputError(f"the environment variable {variable}, for the header {name}, is not set.")
        if not _VALUE.fullmatch(value):
            raise InputError(f"the environment variable {variable} holds what no header can: line breaks or the like.")
        values[name] = value
    return values


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InputError("a header's name must be letters, digits and hyphens.")
