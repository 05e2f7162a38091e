# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""One real answer from a server, looked at: is it the right server, the right model, a real text, in time."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .._errors import LlmHostError
from .._process import identity
from . import unit as units
from .http import Client, excerpt

REPLACEMENT = "\ufffd"
EXCERPT_TEXT = 200  # characters of an answer that a message quotes
KINDS = ("chat", "completion", "embedding", "rerank")
PATHS = {
    "chat": "/v1/chat/completions",
    "completion": "/v1/completions",
    "embedding": "/v1/embeddings",
    "rerank": "/v1/rerank",
}


@dataclass(frozen=True)
class Question:
    """What to ask, and what the answer must be like."""

    kind: str = "auto"
    model: str | None = None
    prompt: str = "Say hello."
    documents: tuple[str, ...] = ()
    max_tokens: int = 32
    tools: tuple[Mapping[str, Any], ...] = ()
    expect_tool: str | None = None
    expect_regex: str | None = None
    allow_replacement: bool = False
    instance: str | None = None
    max_first_token_s: float | None = None
    max_total_s: float | None = None
    min_tokens_per_s: float | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)


def fail(stage: str, reason: str, message: str, **details: Any) -> LlmHostError:
    return LlmHostError(reason, message, stage=stage, **details)


@dataclass
class Heard:
    """What the server said, and when."""

    text: str = ""
    thinking: str = ""
    tool_calls: list[dict[str, str]] = field(default_factory=list)
    usage: dict[str, Any] = field(default_factory=dict)
    finish_reason: str | None = None
    model: str | None = None
    first_token_s: float | None = None
    last_token_s: float | None = None
    dimensions: int | None = None
    scores: list[float] = field(default_factory=list)

    def result(self) -> dict[str, Any]:
        return {
            "text": self.text,
            "reasoning": self.thinking or None,
            "tool_calls": self.tool_calls,
            "usage": self.usage,
            "finish_reason": self.finish_reason,
            "first_token_s": _rounded(self.first_token_s),
            "tokens_per_s": _rounded(self.tokens_per_s()),
            "dimensions": self.dimensions,
            "scores": self.scores or None,
        }

    def tokens_per_s(self) -> float | None:
        """Speed after the first token; unknown where one token, or no count, came."""
        tokens = self.usage.get("completion_tokens")
        if not isinstance(tokens, int) or tokens < 2 or self.first_token_s is None or self.last_token_s is None:
            return None
        spent = self.last_token_s - self.first_token_s
        return (tokens - 1) / spent if spent > 0 else None


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, 4)


def ask(client: Client, question: Question, timeout_s: float, proc: str = "/proc") -> dict[str, Any]:
    """Ask, look, and return what came; ``LlmHostError`` with ``stage`` and ``reason`` where it is not good."""
    client.check()
    pattern = _pattern(question)
    deadline = time.monotonic() + timeout_s
    began = time.monotonic()
    models = _models(client, deadline)
    if question.instance:
        check_owner(client.port, question.instance, proc)
    model = _model(question, models)
    kind = _kind(client, question, deadline)
    heard = _listen(client, kind, model, question, deadline)
    if heard is None:  # a model without a chat template, and nobody insisted on a chat
        kind = "completion"
        heard = _listen(client, kind, model, question, deadline)
    if heard is None:
        raise fail("http", "http_error", "the server refuses both a chat and a completion: give kind")
    seconds = time.monotonic() - began
    result = {
        **heard.result(),
        "kind": kind,
        "model": heard.model or model,
        "seconds": round(seconds, 4),
        "url": client.url,
    }
    try:
        _check_content(heard, kind, question, pattern)
        _check_time(heard, seconds, question)
    except LlmHostError as error:
        raise LlmHostError(error.reason, error.message, **{**result, **error.details}) from None
    return result


def _pattern(question: Question) -> re.Pattern[str] | None:
    if question.expect_regex is None:
        return None
    try:
        return re.compile(question.expect_regex)
    except re.error as error:
        raise fail(
            "content",
            "invalid_argument",
            f"expect_regex {question.expect_regex!r} is none: {error}",
            option="expect_regex",
        ) from None


def _left(deadline: float) -> float:
    return max(0.001, deadline - time.monotonic())


def _models(client: Client, deadline: float) -> list[str]:
    answer = client.get("/v1/models", _left(deadline))
    if answer.status in (401, 403):
        raise fail("http", "unauthorized", "the server wants another API key: give api_key", status=answer.status)
    if answer.status != 200:
        raise fail(
            "http",
            "http_error",
            f"/v1/models answered {answer.status}: {excerpt(answer.body)!r}; is this SGLang's port?",
            status=answer.status,
        )
    found = answer.json()
    data = found.get("data") if isinstance(found, dict) else None
    names = [str(one["id"]) for one in data if isinstance(one, dict) and "id" in one] if isinstance(data, list) else []
    if not names:
        raise fail("model", "no_model", "the server names no model in /v1/models")
    return names


def check_owner(port: int, instance: str, proc: str = "/proc") -> None:
    """The processes that listen on the port are those of the instance's unit, and no other answers for it."""
    name = units.unit_name(instance)
    try:
        holders = identity.listeners(port, proc)
    except LlmHostError as error:
        raise fail("owner", "wrong_owner", f"who listens on port {port} cannot be seen: {error.message}") from None
    if not holders:
        raise fail("owner", "wrong_owner", f"port {port} answers, but no process of this host listens on it")
    foreign = []
    for pid in holders:
        try:
            process = identity.read(pid, proc)
        except OSError:
            continue
        if process.unit != name:
            foreign.append({"pid": pid, "comm": process.comm, "unit": process.unit, "cmdline": process.cmdline})
    if foreign:
        who = ", ".join(f"PID {one['pid']} ({one['comm']}, {one['unit'] or 'no unit'})" for one in foreign)
        raise fail(
            "owner",
            "wrong_owner",
            f"port {port} is answered by {who} and not by {name}: stop that, and start the instance anew",
            holders=foreign,
        )


def _model(question: Question, models: Sequence[str]) -> str:
    if question.model is None:
        return models[0]
    if question.model not in models:
        raise fail(
            "model",
            "model_not_served",
            f"the server serves {', '.join(models)} and not {question.model}: correct model, or served_model_name",
            models=list(models),
        )
    return question.model


def _kind(client: Client, question: Question, deadline: float) -> str:
    if question.kind != "auto":
        return question.kind
    for path in ("/model_info", "/get_model_info"):
        answer = client.get(path, _left(deadline))
        if answer.status == 200:
            found = answer.json()
            if isinstance(found, dict) and found.get("is_generation") is False:
                return "embedding"
            break
    return "chat"


def _body(kind: str, model: str, question: Question) -> dict[str, Any]:
    body: dict[str, Any] = {"model": model}
    if kind == "chat":
        body.update(messages=[{"role": "user", "content": question.prompt}], max_tokens=question.max_tokens)
        if question.tools:
            body["tools"] = list(question.tools)
    elif kind == "completion":
        body.update(prompt=question.prompt, max_tokens=question.max_tokens)
    elif kind == "embedding":
        body["input"] = question.prompt
    else:
        body.update(query=question.prompt, documents=list(question.documents))
    if kind in ("chat", "completion"):
        body.update(temperature=0, stream=True, stream_options={"include_usage": True})
    body.update(question.parameters)
    return body


def _listen(client: Client, kind: str, model: str, question: Question, deadline: float) -> Heard | None:
    """Ask one question. ``None`` where the kind was a guess and the server says that the model does not chat."""
    path, body = PATHS[kind], _body(kind, model, question)
    if kind not in ("chat", "completion"):
        answer = client.post(path, body, _left(deadline))
        _check_status(path, answer.status, answer.body)
        return _embedding(answer.json()) if kind == "embedding" else _rerank(answer.json())
    with client.stream(path, body, _left(deadline)) as (status, lines):
        if status != 200:
            refusal = b"".join(line for _when, line in lines)
            if kind == "chat" and question.kind == "auto" and status == 400 and b"template" in refusal.lower():
                return None
            _check_status(path, status, refusal)
        return _hear(kind, lines)


def _check_status(path: str, status: int, body: bytes) -> None:
    if status in (401, 403):
        raise fail("http", "unauthorized", "the server wants another API key: give api_key", status=status)
    if status != 200:
        raise fail("http", "http_error", f"{path} answered {status}: {excerpt(body)!r}", status=status)


def _hear(kind: str, lines: Iterator[tuple[float, bytes]]) -> Heard:
    heard = Heard()
    done = False
    calls: dict[int, dict[str, str]] = {}
    for when, line in lines:
        text = line.strip()
        if not text.startswith(b"data:"):
            continue
        data = text[5:].strip()
        if data == b"[DONE]":
            done = True
            continue
        try:
            event = json.loads(data)
        except ValueError:
            raise fail("http", "bad_answer", f"the stream holds no JSON: {excerpt(data)!r}") from None
        if not isinstance(event, dict):
            raise fail("http", "bad_answer", f"the stream holds no object: {excerpt(data)!r}")
        if event.get("error") or event.get("object") == "error":
            raise fail("http", "http_error", f"the server broke off: {excerpt(data)!r}")
        try:
            _take(kind, event, when, heard, calls)
        except (AttributeError, TypeError, ValueError):
            raise fail("http", "bad_answer", f"the stream holds no {kind}: {excerpt(data)!r}") from None
    if not done:
        raise fail("http", "connection_lost", "the stream ended before its end mark: the server broke off")
    heard.tool_calls = [calls[index] for index in sorted(calls)]
    return heard


def _take(kind: str, event: Mapping[str, Any], when: float, heard: Heard, calls: dict[int, dict[str, str]]) -> None:
    heard.model = event.get("model") or heard.model
    if isinstance(event.get("usage"), dict):
        heard.usage = {key: value for key, value in event["usage"].items() if isinstance(value, int)}
    for choice in event.get("choices") or []:
        delta = choice.get("delta") or {} if kind == "chat" else choice
        piece = (delta.get("content") if kind == "chat" else delta.get("text")) or ""
        thought = delta.get("reasoning_content") or ""
        for call in delta.get("tool_calls") or []:
            found = calls.setdefault(int(call.get("index") or 0), {"name": "", "arguments": ""})
            function = call.get("function") or {}
            found["name"] += function.get("name") or ""
            found["arguments"] += function.get("arguments") or ""
        if piece or thought or delta.get("tool_calls"):
            heard.first_token_s = when if heard.first_token_s is None else heard.first_token_s
            heard.last_token_s = when
        heard.text += piece
        heard.thinking += thought
        heard.finish_reason = choice.get("finish_reason") or heard.finish_reason


def _embedding(found: Any) -> Heard:
    try:
        vector = found["data"][0]["embedding"]
        numbers = [float(number) for number in vector]
    except (KeyError, IndexError, TypeError, ValueError):
        raise fail("http", "bad_answer", "the answer holds no embedding") from None
    if not numbers or not all(map(math.isfinite, numbers)) or not any(numbers):
        raise fail("content", "bad_vector", f"the embedding of {len(numbers)} numbers is empty, zero or not finite")
    return Heard(dimensions=len(numbers), usage=found.get("usage") or {}, model=found.get("model"))


def _rerank(found: Any) -> Heard:
    rows: Any = found.get("results") if isinstance(found, dict) else found
    try:
        scores = [float(row.get("score", row.get("relevance_score"))) for row in rows]
    except (AttributeError, TypeError, ValueError):
        raise fail("http", "bad_answer", "the answer holds no scores") from None
    if not scores or not all(map(math.isfinite, scores)):
        raise fail("content", "bad_vector", "the scores are missing or not finite")
    return Heard(scores=scores)


def _check_content(heard: Heard, kind: str, question: Question, pattern: re.Pattern[str] | None) -> None:
    if kind not in ("chat", "completion"):
        return
    if question.expect_tool is not None:
        _check_tool(heard, question.expect_tool)
    elif not heard.text.strip():
        length = heard.finish_reason == "length" and heard.thinking
        more = "; it was still thinking: raise max_tokens" if length else ""
        raise fail("content", "empty_text", f"the answer has no text (finish_reason {heard.finish_reason}){more}")
    # The limit may fall inside a character of several tokens: its rest is no fault of the model.
    whole = heard.text.rstrip(REPLACEMENT) if heard.finish_reason == "length" else heard.text
    if REPLACEMENT in whole and not question.allow_replacement:
        raise fail(
            "content",
            "replacement_characters",
            f"the answer holds U+FFFD, so its tokens make no text: {heard.text[:EXCERPT_TEXT]!r}; wrong tokenizer, "
            "broken weights, or a quantization that does not work here",
        )
    if pattern is not None and not pattern.search(heard.text):
        raise fail(
            "content",
            "no_match",
            f"the answer does not match expect_regex {question.expect_regex!r}: {heard.text[:EXCERPT_TEXT]!r}",
        )


def _check_tool(heard: Heard, expected: str) -> None:
    names = [call["name"] for call in heard.tool_calls]
    if expected not in names:
        raise fail(
            "content",
            "no_tool_call",
            f"the model called {', '.join(names) or 'no tool'} and not {expected}: has the server a tool_call_parser?",
        )
    for call in heard.tool_calls:
        try:
            json.loads(call["arguments"] or "{}")
        except ValueError:
            raise fail("content", "bad_tool_call", f"the arguments of {call['name']} are no JSON") from None


def _check_time(heard: Heard, seconds: float, question: Question) -> None:
    first, total, speed = question.max_first_token_s, question.max_total_s, question.min_tokens_per_s
    waited = heard.first_token_s
    if first is not None and waited is not None and waited > first:
        raise fail("latency", "slow_first_token", f"the first token took {waited:.2f} s, more than {first:g}")
    if total is not None and seconds > total:
        raise fail("latency", "slow_answer", f"the answer took {seconds:.2f} s, more than {total:g}")
    found = heard.tokens_per_s()
    if speed is not None and found is None:
        raise fail("latency", "unknown_speed", "too few tokens to tell the speed: raise max_tokens")
    if speed is not None and found is not None and found < speed:
        raise fail("latency", "slow_tokens", f"{found:.1f} tokens a second are less than {speed:g}")
