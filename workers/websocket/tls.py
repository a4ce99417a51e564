"""TLS for all connections: one context for each profile, built once and shared.

A context costs 50 ms and nearly a megabyte, so the fork server builds them and the children inherit them. What
holds: the certificate and the host name are verified, always; TLS 1.2 or newer; nobody is ever asked for a password.

A profile names its files and the state in which the configuration found them, so that certificates which were replaced
under the same name make another profile: a reload then has another fork server build it, and their children replaced.
"""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass

from workers.spec import StreamSpec

_VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}


@dataclass(frozen=True, slots=True, order=True)
class Profile:
    """The fields of `StreamSpec` that begin with `tls_`."""

    ca: str = ""
    cert: str = ""
    key: str = ""
    min_version: str = "1.2"
    stamp: str = ""


def profile_of(spec: StreamSpec) -> Profile:
    return Profile(spec.tls_ca, spec.tls_cert, spec.tls_key, spec.tls_min_version, spec.tls_stamp)


def stamp(*files: str) -> str:
    """Another text when one of the files was written or replaced. The system's authorities have none."""
    return " ".join(map(_state, filter(None, files)))


def _state(file: str) -> str:
    try:
        found = os.stat(file)
    except OSError:
        return "-"
    return f"{found.st_mtime_ns}.{found.st_size}.{found.st_ino}"


class BadFile(ValueError):
    """A file that cannot be used, in one sentence; `key` of the configuration names it."""

    def __init__(self, key: str, file: str, reason: str) -> None:
        super().__init__(f"{key} {file} cannot be used: {reason}")
        self.key = key


class _Encrypted(Exception):
    pass


def context(profile: Profile) -> ssl.SSLContext:
    """Raises `BadFile`."""
    try:
        made = ssl.create_default_context(cafile=profile.ca or None)
    except OSError as error:
        raise BadFile("tls_ca", profile.ca, _cause(error, "it holds no certificate in PEM form")) from None
    made.minimum_version = _VERSIONS[profile.min_version]
    if profile.cert:
        show(made, profile)
    return made


def show(context: ssl.SSLContext, profile: Profile) -> None:
    """Have a context show the profile's certificate. Raises `BadFile`."""
    key, file = ("tls_key", profile.key) if profile.key else ("tls_cert", profile.cert)
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(profile.cert)
    except OSError as error:  # told apart from what is wrong with the key, which the next call does not
        raise BadFile("tls_cert", profile.cert, _cause(error, "it holds no certificate in PEM form")) from None
    try:
        context.load_cert_chain(profile.cert, profile.key or None, _refuse)
    except _Encrypted:
        hint = f"openssl pkey -in {os.path.basename(file)} writes one without"
        raise BadFile(key, file, f"the private key has a password, and nobody is there to type it; {hint}") from None
    except OSError as error:
        reason = getattr(error, "reason", None)
        if reason == "KEY_VALUES_MISMATCH":
            raise BadFile(key, file, f"the private key does not belong to the certificate {profile.cert}") from None
        if reason:  # such as EE_KEY_TOO_SMALL
            raise BadFile("tls_cert", profile.cert, str(reason).lower().replace("_", " ")) from None
        raise BadFile(key, file, _cause(error, "it holds no private key in PEM form")) from None


def _refuse() -> str:
    """Called for a password; without it OpenSSL would ask whoever sits at the terminal."""
    raise _Encrypted


def _cause(error: OSError, otherwise: str) -> str:
    return otherwise if isinstance(error, ssl.SSLError) else error.strerror or otherwise
