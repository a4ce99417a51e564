"""The part of `docs/configuration.md` that tells every key, made from the table of keys.

The page ends with exactly this text. To renew it:

    sed -i '/^## .\\[supervisor\\]/,$d' docs/configuration.md
    python -m supervisor.configuration.reference >> docs/configuration.md
"""

from __future__ import annotations

from collections.abc import Iterator

from supervisor.configuration.keys import STREAM, SUPERVISOR, Key, keys_of


def reference() -> str:
    parts = [
        "## `[supervisor]`\n",
        *(_key(key) for key in keys_of(SUPERVISOR).values()),
        "## `[stream:NAME]`\n",
        "A section for each stream. Without `shards` it is one shard, `NAME`; with them each is `NAME/INDEX`.\n",
        *(_key(key) for key in keys_of(STREAM).values()),
    ]
    return "\n".join(parts).rstrip("\n") + "\n"


def _key(key: Key) -> str:
    name = f"{key.name}NAME" if key.name.endswith(".") else key.name
    return "\n".join([f"### `{name}`\n", key.doc.replace("\n", " ") + "\n", *_facts(key, name), ""])


def _facts(key: Key, name: str) -> Iterator[str]:
    yield f"- Value: {key.parse.accepts}{'; several on lines of their own' if key.lines else ''}."
    if key.default is not None:
        yield f"- Default: `{key.default}`."
    else:
        yield f"- Default: {key.derived or ('none, it is required' if key.required else 'none')}."
    yield f"- A change: {_change(key)}."
    if key.example:
        yield f"- Example: `{name.replace('NAME', 'Authorization')} = {key.example}`"


def _change(key: Key) -> str:
    if key.restart:
        return "needs a restart"
    if key.reload:
        return f"at a reload; {key.reload}"
    return (
        "at a reload, at once" if key.section == SUPERVISOR else "at a reload; the children of the stream are replaced"
    )


if __name__ == "__main__":
    print(reference(), end="")
