"""TLS for all connections: one context for each set of authorities, built once and shared.

A context costs 50 ms and nearly a megabyte, so the fork server builds them and the children inherit them. What
holds: the certificate and the host name are verified, always; TLS 1.2 or newer.
"""

from __future__ import annotations

import ssl


def context(ca: str) -> ssl.SSLContext:
    """`ca`: a file of trusted authorities in PEM form; empty: those of the system. Raises ValueError."""
    try:
        made = ssl.create_default_context(cafile=ca or None)
    except (OSError, ssl.SSLError) as error:
        reason = error.strerror or "it holds no certificate in PEM form"
        raise ValueError(f"tls_ca {ca} cannot be used: {reason}") from None
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    return made
