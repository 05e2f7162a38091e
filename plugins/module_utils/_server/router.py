# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""The workers of SGLang's router: who is registered, and the way from there to who should be.

The router (sglang-router 0.3.2, seen) takes a registration and a removal as jobs and answers 202 at once; a request in
flight goes on after its worker was removed; a worker that does not answer is not registered, and is not asked again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from .._errors import LlmHostError
from .http import Client, excerpt

POLL_S = 0.5
ASK_S = 10.0


@dataclass(frozen=True)
class Registered:
    """A worker as the router tells of it."""

    id: str
    url: str
    healthy: bool
    model: str | None = None

    def as_dict(self) -> dict[str, Any]:
        return {"id": self.id, "url": self.url, "healthy": self.healthy, "model": self.model}


@dataclass(frozen=True)
class Wish:
    """Who should be registered. The key goes with a registration; the router never shows it again."""

    urls: tuple[str, ...]
    state: str = "present"  # present: these too. absent: not these. exact: these and no others
    worker_api_key: str | None = field(default=None, repr=False)


def plain(url: str) -> str:
    return url.rstrip("/")


def listed(client: Client) -> list[Registered]:
    """The workers that the router knows now."""
    answer = client.get("/workers", ASK_S)
    if answer.status in (401, 403):
        raise LlmHostError("unauthorized", "the router wants another key than the one in api_key", status=answer.status)
    if answer.status != 200:
        raise LlmHostError(
            "router_failed", f"GET /workers: {answer.status} {excerpt(answer.body)}", status=answer.status
        )
    found = answer.json()
    workers = found.get("workers") if isinstance(found, dict) else None
    if not isinstance(workers, list):
        raise LlmHostError("router_failed", "GET /workers holds no list of workers: is that SGLang's router?")
    return [
        Registered(str(one.get("id")), plain(str(one.get("url"))), bool(one.get("is_healthy")), one.get("model_id"))
        for one in workers
    ]


def differences(wish: Wish, found: Sequence[Registered]) -> tuple[list[str], list[Registered]]:
    """URLs to register, and workers to remove."""
    wanted = [plain(url) for url in wish.urls]
    if wish.state == "absent":
        return [], [one for one in found if one.url in wanted]
    known = {one.url for one in found}
    add = [url for url in dict.fromkeys(wanted) if url not in known]
    return add, [one for one in found if one.url not in wanted] if wish.state == "exact" else []


def bring(
    client: Client,
    wish: Wish,
    timeout_s: float,
    check_mode: bool = False,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[str, Any]:
    """Register and remove, and wait until the router says so. Raises LlmHostError where it does not in time."""
    before = listed(client)
    add, remove = differences(wish, before)
    result: dict[str, Any] = {
        "changed": bool(add or remove),
        "added": add,
        "removed": [one.url for one in remove],
        "before": sorted(one.url for one in before),
    }
    if check_mode:
        after = sorted((set(result["before"]) | set(add)) - {one.url for one in remove})
        return {**result, "after": after, "workers": [one.as_dict() for one in before]}
    key = {"api_key": wish.worker_api_key} if wish.worker_api_key else {}
    for url in add:
        _accepted(client.post("/workers", {"url": url, **key}, ASK_S), "registration", url)
    for one in remove:
        _accepted(client.ask("DELETE", "/workers/" + quote(one.id, safe=""), None, ASK_S), "removal", one.url)
    deadline = clock() + timeout_s
    while True:
        now = listed(client)
        wrong = _wrong(wish, now)
        if not wrong:
            return {
                **result,
                "after": sorted(one.url for one in now),
                "workers": [one.as_dict() for one in sorted(now, key=lambda one: one.url)],
            }
        if clock() >= deadline:
            raise LlmHostError(
                "worker_not_ready" if wish.state != "absent" else "worker_not_removed",
                f"after {timeout_s:g} s " + "; ".join(wrong),
                workers=[one.as_dict() for one in now],
                added=add,
                removed=result["removed"],
                changed=bool(add or remove),
            )
        sleep(POLL_S)


def _accepted(answer: Any, what: str, url: str) -> None:
    if answer.status not in (200, 202, 204):
        raise LlmHostError(
            "unauthorized" if answer.status in (401, 403) else "router_failed",
            f"the router refused the {what} of {url}: {answer.status} {excerpt(answer.body)}",
            status=answer.status,
            url=url,
        )


def _wrong(wish: Wish, now: Sequence[Registered]) -> list[str]:
    by_url = {one.url: one for one in now}
    wanted = [plain(url) for url in wish.urls]
    if wish.state == "absent":
        return [f"{url} is still registered" for url in wanted if url in by_url]
    wrong = []
    for url in wanted:
        if url not in by_url:
            wrong.append(
                f"{url} is not registered: the router could not learn its model, so does it answer from there?"
            )
        elif not by_url[url].healthy:
            wrong.append(f"{url} is registered and not healthy")
    if wish.state == "exact":
        wrong += [f"{url} is still registered" for url in sorted(set(by_url) - set(wanted))]
    return wrong
