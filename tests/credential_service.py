"""A service of temporary AWS credentials, as ECS has one, that can stall and let what it gave out expire."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

VALID = timedelta(minutes=5)  # so little that botocore insists on newer ones whenever it looks


class CredentialService(ThreadingHTTPServer):
    """`token` is the session token of what is given out next."""

    daemon_threads = True

    def __init__(self) -> None:
        self.generation = 0
        self.asked = 0
        self.stalled = threading.Event()
        self.closing = threading.Event()
        super().__init__(("127.0.0.1", 0), _Request)

    @property
    def token(self) -> str:
        return f"token-{self.generation}"

    def environment(self) -> dict[str, str]:
        """With which boto3 asks here, and nowhere else."""
        return {
            "AWS_ACCESS_KEY_ID": "",
            "AWS_SECRET_ACCESS_KEY": "",
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"http://127.0.0.1:{self.server_address[1]}/credentials",
        }


class _Request(BaseHTTPRequestHandler):
    server: CredentialService

    def do_GET(self) -> None:
        self.server.asked += 1
        if self.server.stalled.is_set():
            self.server.closing.wait(30)  # whoever asked has given up by then
            return
        answer = {
            "AccessKeyId": "temporary",
            "SecretAccessKey": "temporary",
            "Token": self.server.token,
            "Expiration": (datetime.now(UTC) + VALID).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


@contextmanager
def credential_service() -> Iterator[CredentialService]:
    with CredentialService() as service:
        thread = threading.Thread(target=service.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield service
        finally:
            service.closing.set()
            service.shutdown()
            thread.join()
