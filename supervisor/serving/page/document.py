"""The page, its style and its script as one document that needs nothing else, and the policy that lets only these run.

The policy names style and script by their hashes: whatever text of a row might ever get into the document, nothing of
it would run or be drawn as ours. It also lets the page ask its own origin, and forbids each way of turning text into
markup (Trusted Types).
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from importlib.resources import files

_STYLE = '<link rel="stylesheet" href="page.css">'
_SCRIPTS = ("shape.js", "nodes.js", "overview.js", "shards.js", "history.js", "page.js")
_POLICY = (
    "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; connect-src 'self'; "
    "img-src data:; style-src {style}; script-src {script}; require-trusted-types-for 'script'; trusted-types 'none'"
)


@dataclass(frozen=True, slots=True)
class Document:
    """`policy` is the Content-Security-Policy that goes with exactly this `body`."""

    body: bytes
    policy: str


def load() -> Document:
    """Read from the package."""
    folder = files("supervisor.serving.page")
    html = folder.joinpath("index.html").read_text("utf-8")
    style = folder.joinpath("page.css").read_text("utf-8")
    script = "\n".join(folder.joinpath(name).read_text("utf-8") for name in _SCRIPTS)
    html = _inlined(html, _STYLE, f"<style>{style}</style>")
    html = _inlined(
        html, "\n".join(f'<script src="{name}"></script>' for name in _SCRIPTS), f"<script>{script}</script>"
    )
    return Document(html.encode(), _POLICY.format(style=_hash(style), script=_hash(script)))


def _inlined(html: str, reference: str, content: str) -> str:
    before, found, after = html.partition(reference)
    if not found:
        raise ValueError(f"index.html has no line {reference}")
    return before + content + after


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
