"""What is wrong with the TLS files of a stream, found before a child would.

A file that cannot be used is a mistake. A certificate of ours that has expired, or is not valid yet, is a warning: a
daemon that runs must not refuse to start again because time has passed, and the server may still accept it.
"""

from __future__ import annotations

import ssl

from workers.websocket import tls


def dated(profile: tls.Profile) -> str:
    """What a server that trusts the certificate of a profile would say to it today; empty: nothing, or there is none.

    Python reads the dates of a certificate only for one that was shown to it. So it is: a handshake in memory.
    Raises `tls.BadFile`."""
    if not profile.cert:
        return ""
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for context in (server, client):
        tls.show(context, profile)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    server.verify_mode = ssl.CERT_REQUIRED
    server.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # the certificate itself is enough to trust it
    server.load_verify_locations(profile.cert)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = (client.wrap_bio(to_client, to_server), server.wrap_bio(to_server, to_client, server_side=True))
    try:
        for side in (*sides, *sides):
            _go_on(side)
    except ssl.SSLCertVerificationError as error:
        return error.verify_message
    except ssl.SSLError:
        return ""
    return ""


def _go_on(side: ssl.SSLObject) -> None:
    try:
        side.do_handshake()
    except ssl.SSLWantReadError:
        return
