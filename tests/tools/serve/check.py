"""check.py SCENARIO ADDRESS [ARGUMENT...] - a client of zt-run --serve for tests/tools/zt-run-serve.bats.

ADDRESS is the path of a unix: socket, or http://ADDRESS:PORT. What is expected comes from zt-run --jsonl with the same model. A scenario that
does not hold ends with an exception.
"""

import http.client
import json
import os
import socket
import subprocess
import sys
import threading
import time

ADDRESS = sys.argv[2]
LONG = {"prompt": "hello on the", "max_tokens": 100000, "ignore_eos": True, "temperature": 1}


class Connection(http.client.HTTPConnection):
    """To the server."""

    def __init__(self, timeout=600, receive_buffer=None):
        super().__init__("localhost", timeout=timeout)
        self.receive_buffer = receive_buffer

    def connect(self):
        network = ADDRESS.startswith("http://")
        self.sock = socket.socket(socket.AF_INET if network else socket.AF_UNIX, socket.SOCK_STREAM)
        if self.receive_buffer:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.receive_buffer)
        self.sock.settimeout(self.timeout)
        host, _, port = ADDRESS[7:].rpartition(":")
        self.sock.connect((host, int(port)) if network else ADDRESS)


def call(path, body=None, method=None, headers=None, text=None):
    """Status, headers and text of an answer."""
    connection = Connection()
    sent = {"Content-Type": "application/json"} if body is not None or text is not None else {}
    sent.update(headers or {})
    data = text if text is not None else json.dumps(body) if body is not None else None
    connection.request(method or ("GET" if data is None else "POST"), path, data, sent)
    answer = connection.getresponse()
    result = answer.status, dict(answer.getheaders()), answer.read().decode()
    connection.close()
    return result


def post(path, body):
    status, _, text = call(path, body)
    assert status == 200, (status, text)
    return json.loads(text)


def events(path, body):
    """The objects of a stream."""
    connection = Connection()
    connection.request("POST", path, json.dumps(dict(body, stream=True)), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    assert answer.status == 200, answer.read()
    assert answer.getheader("Content-Type") == "text/event-stream"
    found, text = [], answer.read().decode()  # an incomplete character is an exception
    for event in text.split("\n\n")[:-1]:
        assert event.startswith("data: "), event
        found.append(event[6:])
    assert found.pop() == "[DONE]", found
    connection.close()
    return [json.loads(event) for event in found]


def metrics():
    values = {}
    for line in call("/metrics")[2].splitlines():
        if not line.startswith("#"):
            name, value = line.rsplit(" ", 1)
            values[name] = float(value)
    return values


def wait_for(what, seconds=300):  # under a sanitizer on a busy machine it is slow
    end = time.time() + seconds
    while not what():
        assert time.time() < end, "it does not come"
        time.sleep(0.05)


def wait_idle():
    wait_for(lambda: metrics()["zt_texts_open"] == 0)


# ---- the same text as the command line ----------------------------------------------------------------


def lines_of(path, body):
    """The requests of --jsonl that a body stands for."""
    line = {key: value for key, value in body.items() if key not in ("n", "stream", "stream_options", "user", "prompt")}
    prompts = body.get("prompt", [None])
    if not isinstance(prompts, list) or isinstance(prompts[0], int):
        prompts = [prompts]
    for prompt in prompts:
        for i in range(body.get("n", 1)):
            extra = {"raw": True, "prompt": prompt} if path == "/v1/completions" else {}
            yield dict(line, seed=body.get("seed", 0) + i, **extra)


def expected(bodies):
    """For each body the answers of --jsonl to its requests."""
    lines = [(index, line) for index, (path, body) in enumerate(bodies) for line in lines_of(path, body)]
    text = "".join(json.dumps(line) + "\n" for _, line in lines)
    run = subprocess.run(["zt-run", "-m", "model.gguf", "--jsonl"] + sys.argv[3:], input=text.encode(), capture_output=True)
    assert run.returncode == 0, run.stderr
    answers = [[] for _ in bodies]
    for (index, _), answer in zip(lines, run.stdout.splitlines()):
        answers[index].append(json.loads(answer))
    return answers


def text_of(choice):
    return choice["text"] if "text" in choice else choice["message"]["content"]


def compare_whole(path, body, answers):
    got = post(path, body)
    assert [choice["index"] for choice in got["choices"]] == list(range(len(answers)))
    for choice, answer in zip(got["choices"], answers):
        assert text_of(choice) == answer["text"], (body, choice, answer)
        assert choice["finish_reason"] == ("length" if answer["stop"] in ("length", "ctx") else "stop")
    made = sum(answer["generated_tokens"] for answer in answers)
    assert got["usage"]["completion_tokens"] == made, (got["usage"], made)
    assert got["usage"]["prompt_tokens"] == sum(answer["prompt_tokens"] for answer in answers[:: body.get("n", 1)])


def compare_stream(path, body, answers):
    texts, finish = [""] * len(answers), [None] * len(answers)
    for event in events(path, body):
        for choice in event["choices"]:
            assert finish[choice["index"]] is None, "an event after the last one"
            texts[choice["index"]] += choice["text"] if "text" in choice else choice["delta"].get("content", "")
            finish[choice["index"]] = choice["finish_reason"]
    assert texts == [answer["text"] for answer in answers], (texts, answers)
    assert finish == ["length" if answer["stop"] in ("length", "ctx") else "stop" for answer in answers], finish


FORMAT = {
    "type": "json_schema",
    "json_schema": {
        "name": "x",
        "strict": True,
        "schema": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"enum": ["é", "€", "x"]}},
            "required": ["a", "b"],
            "additionalProperties": False,
        },
    },
}


def bodies():
    chat, plain = "/v1/chat/completions", "/v1/completions"
    user = [{"role": "user", "content": "hello on the"}]
    two = [{"role": "system", "content": "be brief"}, {"role": "user", "content": [{"type": "text", "text": "héllo €"}]}]
    return [
        (plain, {"prompt": "hello on the", "max_tokens": 20, "temperature": 0}),
        (plain, {"prompt": "hello on the", "max_tokens": 40, "temperature": 1.5, "seed": 7}),
        (plain, {"prompt": ["hello", "on the she", "€ é"], "max_tokens": 12, "temperature": 2, "n": 3, "seed": 11}),
        (plain, {"prompt": "hello", "max_tokens": 30, "temperature": 1, "top_p": 0.5, "top_k": 5, "min_p": 0.1}),
        (plain, {"prompt": "hello", "max_tokens": 30, "frequency_penalty": 1, "presence_penalty": 0.5, "temperature": 0}),
        (plain, {"prompt": "hello", "max_tokens": 60, "temperature": 3, "stop": ["a", "e"], "seed": 5, "user": "me"}),
        (plain, {"prompt": "hello", "max_tokens": 9, "logprobs": 3, "temperature": 0}),
        (chat, {"messages": user, "max_tokens": 20, "temperature": 0}),
        (chat, {"messages": user, "max_completion_tokens": 20, "temperature": 2, "seed": 3, "n": 4}),
        (chat, {"messages": two, "max_tokens": 25, "temperature": 5, "model": "model"}),
        (chat, {"messages": user, "max_tokens": 7, "logprobs": True, "top_logprobs": 2, "temperature": 0}),
        (chat, {"messages": user, "temperature": 4}),
        (chat, {"messages": user, "temperature": 3, "n": 2, "max_tokens": 60, "response_format": FORMAT}),
        (plain, {"prompt": [50, 60, 70], "max_tokens": 12, "temperature": 0}),
        (plain, {"prompt": [[50, 60, 70], [9, 80]], "max_tokens": 12, "temperature": 2, "n": 2}),
        (plain, {"prompt": "hello", "temperature": 2, "grammar": 'root ::= ("yes" | "no" | "€")+', "max_tokens": 30}),
    ]


def parity():
    """Whole answers and streams have the text of --jsonl."""
    for (path, body), answers in zip(bodies(), expected(bodies())):
        compare_whole(path, body, answers)
        compare_stream(path, body, answers)


def crowd():
    """64 clients at once, each with a body of its own, get what they get alone."""
    all_bodies = [(path, dict(body, seed=1000 * i)) for i in range(6) for path, body in bodies()][:64]
    answers, wrong = expected(all_bodies), []

    def client(index):
        try:
            compare = compare_stream if index % 2 else compare_whole
            compare(*all_bodies[index], answers[index])
        except BaseException as why:  # pylint: disable=broad-except
            wrong.append((index, repr(why)))

    threads = [threading.Thread(target=client, args=(index,)) for index in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(threads) == 64 and not wrong, wrong


# ---- tools ----------------------------------------------------------------------------------------------

WEATHER = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 50}, "days": {"type": "integer", "minimum": 1, "maximum": 7}, "unit": {"enum": ["C", "F"]}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
TOOLS = [
    {"type": "function", "function": {"name": "weather", "description": "the weather", "parameters": WEATHER, "strict": True}},
    {"type": "function", "function": {"name": "now"}},
]


def tool_bodies():
    chat, user = "/v1/chat/completions", [{"role": "user", "content": "hello"}]
    named = {"type": "function", "function": {"name": "weather"}}
    some = {"messages": user, "tools": TOOLS, "max_tokens": 600, "temperature": 1.5}
    return [
        (chat, dict(some, tool_choice="required")),
        (chat, dict(some, tool_choice="required", n=3, seed=5)),
        (chat, dict(some, tool_choice=named, parallel_tool_calls=False, seed=9)),
        (chat, dict(some, tool_choice=named, seed=3, n=2)),
        (chat, dict(some, max_tokens=40)),
        (chat, dict(some, max_tokens=40, tool_choice="none")),
        (chat, dict(some, max_tokens=200, response_format=FORMAT)),
    ]


def calls_of(calls):
    return [(one["function"]["name"], json.loads(one["function"]["arguments"])) for one in calls or []]


def valid_call(call):
    name, arguments = call
    if name == "now":
        return arguments == {}
    fits = set(arguments) <= {"city", "days", "unit"} and len(arguments["city"]) <= 50 and arguments["days"] in range(1, 8)
    return fits and arguments.get("unit", "C") in ("C", "F")


def compare_calls(body, answers, stream):
    """A whole answer, or a stream, has the content and the calls of --jsonl."""
    count, contents, finish = len(answers), [""] * len(answers), [None] * len(answers)
    calls, pieces = [[] for _ in answers], 0
    if stream:
        for event in events("/v1/chat/completions", body):
            choice = event["choices"][0]
            contents[choice["index"]] += choice["delta"].get("content") or ""
            finish[choice["index"]] = choice["finish_reason"]
            for delta in choice["delta"].get("tool_calls", []):
                own = calls[choice["index"]]
                if "id" in delta:
                    assert delta["index"] == len(own) and delta["type"] == "function" and delta["function"]["arguments"] == ""
                    own.append({"id": delta["id"], "function": dict(delta["function"])})
                else:
                    pieces += 1
                    own[delta["index"]]["function"]["arguments"] += delta["function"]["arguments"]
    else:
        for choice in post("/v1/chat/completions", body)["choices"]:
            contents[choice["index"]] = choice["message"]["content"] or ""
            calls[choice["index"]] = choice["message"].get("tool_calls", [])
            finish[choice["index"]] = choice["finish_reason"]
    required = body.get("tool_choice", "auto") not in ("auto", "none")
    for index in range(count):
        answer, begun = answers[index], len(calls[index]) > len(answers[index].get("tool_calls", []))
        if stream and begun and answer["stop"] in ("length", "ctx"):  # a stream has the beginning of a call, a whole answer its text
            part = calls[index].pop()["function"]["arguments"]
            assert answer["content"].startswith(contents[index]) and "tool_call_error" in answer and part[:1] == "{", (part, answer)
        else:
            assert contents[index] == answer["content"], (body, contents[index], answer)
        assert calls_of(calls[index]) == [(one["name"], one["arguments"]) for one in answer.get("tool_calls", [])], (calls[index], answer)
        assert all(valid_call(one) for one in calls_of(calls[index])), calls[index]
        assert len({one["id"] for one in calls[index]}) == len(calls[index])
        cut = answer["stop"] in ("length", "ctx")
        assert finish[index] == ("tool_calls" if calls[index] else "length" if cut else "stop"), (finish[index], answer)
        assert calls[index] or not required or body["max_tokens"] < 100, (body, answer)
    longest = max((len(one["function"]["arguments"]) for own in calls for one in own), default=0)
    assert not stream or longest <= 32 or pieces > sum(len(own) for own in calls), "the arguments come in one piece"


def tools():
    cut = [("/v1/chat/completions", dict(tool_bodies()[2][1], max_tokens=limit, tool_choice="auto" if limit % 2 else "required")) for limit in range(20, 70, 3)]
    for (_, body), answers in zip(cut, expected(cut)):
        compare_calls(body, answers, False)
        compare_calls(body, answers, True)
    for (_, body), answers in zip(tool_bodies(), expected(tool_bodies())):
        compare_calls(body, answers, False)
        compare_calls(body, answers, True)


def tools_crowd():
    """64 clients at once, with tools."""
    all_bodies = [(path, dict(body, seed=1000 * i)) for i in range(10) for path, body in tool_bodies()][:64]
    answers, wrong = expected(all_bodies), []

    def client(index):
        try:
            compare_calls(all_bodies[index][1], answers[index], index % 2 == 1)
        except BaseException as why:  # pylint: disable=broad-except
            wrong.append((index, repr(why)))

    threads = [threading.Thread(target=client, args=(index,)) for index in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(threads) == 64 and not wrong, wrong


def tools_refused():
    """Schemas that are not supported are named."""
    for parameters, words in (({"type": "object", "properties": {"a": {"not": {}}}}, '#/properties/a: "not" is not supported'),
                              ({"type": "array"}, "not a schema of objects"),
                              ({"type": "object", "properties": {"a": {"type": "string", "format": "uri"}}}, '"format" is not supported')):
        for stream in (False, True):
            status, _, text = call(CHAT, {"messages": HELLO, "stream": stream, "tools": [{"type": "function", "function": {"name": "f", "parameters": parameters}}]})
            error = json.loads(text)["error"]
            assert status == 400 and error["param"] == "tools" and words in error["message"], error


# ---- form ---------------------------------------------------------------------------------------------


def form():
    """The objects have OpenAI's members."""
    user = [{"role": "user", "content": "hello"}]
    got = post("/v1/chat/completions", {"messages": user, "max_tokens": 3, "logprobs": True, "top_logprobs": 2, "temperature": 0})
    assert set(got) == {"id", "object", "created", "model", "choices", "usage"}, got
    assert got["object"] == "chat.completion" and got["model"] == "model" and got["id"].startswith("chatcmpl-")
    message = got["choices"][0]["message"]
    assert message["role"] == "assistant"
    tokens = got["choices"][0]["logprobs"]["content"]
    assert len(tokens) == 3 and all(len(token["top_logprobs"]) == 2 for token in tokens)
    assert b"".join(bytes(token["bytes"]) for token in tokens).decode(errors="replace") == message["content"]
    assert all(token["logprob"] <= 0 and token["logprob"] == token["top_logprobs"][0]["logprob"] for token in tokens)

    got = post("/v1/completions", {"prompt": "hello", "max_tokens": 3, "logprobs": 2, "temperature": 0})
    assert got["object"] == "text_completion"
    probabilities = got["choices"][0]["logprobs"]
    assert [len(probabilities[name]) for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset")] == [3] * 4
    assert "".join(probabilities["tokens"]) == got["choices"][0]["text"]

    body = {"messages": user, "max_tokens": 4, "logprobs": True, "stream_options": {"include_usage": True}, "temperature": 0}
    found = events("/v1/chat/completions", body)
    assert len({event["id"] for event in found}) == 1
    assert all(event["object"] == "chat.completion.chunk" for event in found)
    assert found[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert found[-1]["choices"] == [] and found[-1]["usage"]["completion_tokens"] == 4
    assert found[-2]["choices"][0]["finish_reason"] == "length"
    streamed = [t for event in found[1:-2] for t in event["choices"][0]["logprobs"]["content"]]
    assert len(streamed) == 4, streamed

    models = json.loads(call("/v1/models")[2])
    assert [model["id"] for model in models["data"]] == ["model"] and models["object"] == "list"
    assert json.loads(call("/v1/models/model")[2])["object"] == "model"
    assert call("/v1/models/other")[0] == 404
    assert json.loads(call("/health")[2]) == {"status": "ok"}
    values = metrics()
    assert values['zt_requests_total{path="/v1/chat/completions",code="200"}'] == 2, values
    assert values["zt_generated_tokens_total"] == 10 and values["zt_request_seconds_count"] == 3
    assert values['zt_time_to_first_token_seconds_bucket{le="+Inf"}'] == values["zt_time_to_first_token_seconds_count"] == 3
    assert values["zt_cache_blocks"] > values["zt_cache_blocks_used"] >= 0


def embeddings():
    """The vectors of --embed, as numbers and as base64."""
    import base64
    import struct

    texts = ["hello on the", "€ é", "she"]
    run = subprocess.run(
        ["zt-run", "-m", "model.gguf", "--embed", "--format", "ndjson"], input="\n".join(texts).encode(), capture_output=True
    )
    wanted = [json.loads(line) for line in run.stdout.splitlines()]
    for width in (None, len(wanted[0]["embedding"])):
        got = post("/v1/embeddings", dict({"input": texts, "model": "model"}, **({"dimensions": width} if width else {})))
        assert [one["embedding"] for one in got["data"]] == [one["embedding"] for one in wanted]
        assert [one["index"] for one in got["data"]] == [0, 1, 2]
        assert got["usage"]["prompt_tokens"] == sum(one["tokens"] for one in wanted)
    run = subprocess.run(["zt-run", "-m", "model.gguf", "--tokenize", "-p", texts[1]], capture_output=True)
    ids = [int(word) for word in run.stdout.split()]
    for ids_input in (ids, [ids]):
        assert post("/v1/embeddings", {"input": ids_input})["data"][0]["embedding"] == wanted[1]["embedding"]
    got = post("/v1/embeddings", {"input": texts[1], "encoding_format": "base64"})
    data = base64.b64decode(got["data"][0]["embedding"])
    floats = [struct.pack("<f", number) for number in wanted[1]["embedding"]]
    assert data == b"".join(floats)


def encoder():
    """An encoder has embeddings only."""
    embeddings()
    for path, body in ((PLAIN, {"prompt": "hello"}), (CHAT, {"messages": HELLO, "stream": True})):
        status, _, text = call(path, body)
        assert status == 400 and "is an encoder" in json.loads(text)["error"]["message"], (status, text)


# ---- refusals -----------------------------------------------------------------------------------------

CHAT, PLAIN, EMBED = "/v1/chat/completions", "/v1/completions", "/v1/embeddings"
HELLO = [{"role": "user", "content": "hello"}]
WRONG = [
    # path, body or text, status, param, what the message holds
    (CHAT, "{", 400, None, "not JSON: line 1"),
    (CHAT, "[]", 400, None, "not a JSON object"),
    (CHAT, '{"messages":[],"messages":[]}', 400, None, "duplicate"),
    (CHAT, b"\xff\xfe", 400, None, "not JSON"),
    (CHAT, "[" * 100000, 400, None, "not JSON"),
    (CHAT, {}, 400, None, "messages"),
    (CHAT, {"messages": []}, 400, "messages", "is empty"),
    (CHAT, {"messages": "hello"}, 400, "messages", "array"),
    (CHAT, {"messages": HELLO, "prompt": "x"}, 400, "prompt", "does not have it"),
    (CHAT, {"messages": HELLO, "temperature": "hot"}, 400, "temperature", "number"),
    (CHAT, {"messages": HELLO, "temprature": 1}, 400, "temprature", "did you mean"),
    (CHAT, {"messages": HELLO, "top_p": 2}, 400, None, "top-p"),
    (CHAT, {"messages": HELLO, "n": 0}, 400, "n", "from 1 to 128"),
    (CHAT, {"messages": HELLO, "n": 129}, 400, "n", "from 1 to 128"),
    (CHAT, {"messages": HELLO, "stream": "yes"}, 400, "stream", "true or false"),
    (CHAT, {"messages": HELLO, "stream_options": {}}, 400, "stream_options", "goes with"),
    (CHAT, {"messages": HELLO, "stream": True, "stream_options": {"usage": True}}, 400, None, "include_usage"),
    (CHAT, {"messages": HELLO, "logit_bias": {"5": 100}}, 400, "logit_bias", "not supported"),
    (CHAT, {"messages": HELLO, "audio": {"voice": "x"}}, 400, "audio", "not supported"),
    (CHAT, {"messages": HELLO, "model": "gpt-4o"}, 404, "model", "not the loaded model"),
    (CHAT, {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, 400, "messages", "type"),
    (CHAT, {"messages": HELLO, "response_format": {"type": "xml"}}, 400, "response_format", "json_schema"),
    (CHAT, {"messages": HELLO, "grammar": 'root ::= "a'}, 400, "grammar", "grammar: line 1"),
    (PLAIN, {"prompt": ""}, 400, None, "empty"),
    (CHAT, {"messages": HELLO, "tool_choice": "required"}, 400, "tool_choice", "there are no"),
    (CHAT, {"messages": HELLO, "tool_choice": "must", "tools": [{"name": "f"}]}, 400, "tool_choice", '"required"'),
    (CHAT, {"messages": HELLO, "tools": [{"type": "web_search"}]}, 400, "tools", "tools[0]"),
    (PLAIN, {"prompt": [1, "a"]}, 400, "prompt", "an array of 1 to 128 of them"),
    (PLAIN, {"prompt": [[1], "a"]}, 400, "prompt", "an array of 1 to 128 of them"),
    (PLAIN, {"prompt": []}, 400, "prompt", "an array of 1 to 128 of them"),
    (PLAIN, {"prompt": [1, 99999]}, 400, "prompt", "99999 is not a token id from 0 to"),
    (PLAIN, {"prompt": [[1, -1]]}, 400, "prompt", "-1 is not a token id from 0 to"),
    (PLAIN, {"prompt": [1.5]}, 400, "prompt", "an array of 1 to 128 of them"),
    (PLAIN, {"prompt": "x", "echo": True}, 400, "echo", "not supported"),
    (PLAIN, {"prompt": "x", "suffix": "y"}, 400, "suffix", "not supported"),
    (PLAIN, {"prompt": "x", "best_of": 3}, 400, "best_of", "all that is supported"),
    (PLAIN, {"prompt": ["x"] * 100, "n": 2}, 400, "n", "from 1 to 1"),
    (PLAIN, {"prompt": "x", "raw": False}, 400, "raw", "does not have it"),
    (PLAIN, {"prompt": "hello " * 3000}, 400, None, "the context"),
    (PLAIN, {"prompt": "x", "stream": True, "seed": -1}, 400, "seed", "integer"),
    (EMBED, {"input": ""}, 400, "input", "no tokens"),
    (EMBED, {"input": [["a"]]}, 400, "input", "of them"),
    (EMBED, {"input": [[1], [99999]]}, 400, "input", "99999 is not a token id"),
    (EMBED, {"input": "a", "encoding_format": "int8"}, 400, "encoding_format", "base64"),
    (EMBED, {"input": "a", "dimensions": 3}, 400, "dimensions", "the width"),
    (EMBED, {"input": "a", "temperature": 1}, 400, "temperature", "unknown member"),
]


def refusals():
    """A request that is wrong gets OpenAI's error object, which names the member."""
    for path, body, status, param, words in WRONG:
        raw = body if isinstance(body, (str, bytes)) else None
        got, headers, text = call(path, None if raw is not None else body, text=raw)
        assert got == status, (body, got, text)
        assert headers["Content-Type"] == "application/json"
        error = json.loads(text)["error"]
        assert set(error) == {"message", "type", "param", "code"}, error
        assert words in error["message"], (body, error)
        assert error["param"] == param, (body, error)
        assert error["type"] == "invalid_request_error"
    for method, path, headers, status in [
        ("GET", "/v1/chat/completions", {}, 405),
        ("POST", "/v1/models", {"Content-Type": "application/json"}, 405),
        ("OPTIONS", "/v1/chat/completions", {}, 405),
        ("GET", "/", {}, 404),
        ("GET", "/v1/../health", {}, 404),
        ("POST", "/v1/completions", {"Content-Type": "text/plain"}, 415),
        ("POST", "/v1/completions", {"Content-Length": str(1 << 40), "Content-Type": "application/json"}, 413),
    ]:
        connection = Connection()
        connection.putrequest(method, path)
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        assert answer.status == status, (method, path, answer.status)
        assert "error" in json.loads(answer.read())
        connection.close()
    assert post(PLAIN, {"prompt": "hello", "max_tokens": 2})["usage"]["completion_tokens"] == 2
    assert post(CHAT, {"messages": HELLO, "max_tokens": 2, "user": "u", "store": True, "metadata": {"a": "b"}, "logit_bias": None,
                       "service_tier": "auto", "parallel_tool_calls": True, "response_format": {"type": "text"}})


def hostile():
    """Mutations of bodies: each is answered by 200 or an error object, and the server goes on. An argument is how many."""
    import random

    random.seed(5)
    pieces = ["{", "}", "[", "]", '"', ",", ":", "null", "-1", "1e999", "9" * 40, "\\u0000", "\\ud800", "\xff", "true", '"n"', '"stream"', "\t"]
    texts = [(path, json.dumps(dict(body, max_tokens=2))) for path, body in bodies()]
    texts += [(EMBED, json.dumps({"input": ["hello", "€"], "encoding_format": "base64"}))]
    seen = {}
    for _ in range(int(sys.argv[3])):
        path, text = random.choice(texts)
        for _ in range(random.randint(1, 3)):
            at = random.randrange(len(text))
            to = min(len(text), at + random.choice([0, 0, 1, 1, 2, 20]))
            text = text[:at] + random.choice(pieces) + text[to:]
        connection = Connection()
        connection.request("POST", path, text.encode("latin-1", "replace"), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        data = answer.read()
        connection.close()
        seen[answer.status] = seen.get(answer.status, 0) + 1
        if answer.status != 200:
            assert set(json.loads(data)["error"]) == {"message", "type", "param", "code"}, data
    assert set(seen) <= {200, 400, 404} and seen[400] > 10, seen
    assert post(PLAIN, {"prompt": "hello", "max_tokens": 2})


def oversized():
    """--max-body 1000: a longer body is refused, said or not; the server goes on."""
    status, _, text = call(PLAIN, {"prompt": "x" * 2000})
    assert status == 413, (status, text)
    connection = Connection()
    connection.putrequest("POST", PLAIN)
    connection.putheader("Content-Type", "application/json")
    connection.putheader("Transfer-Encoding", "chunked")
    connection.endheaders()
    for _ in range(50):
        connection.send(b"40\r\n" + b" " * 64 + b"\r\n")
    connection.send(b"0\r\n\r\n")
    answer = connection.getresponse()
    assert answer.status == 413, answer.status
    assert "--max-body" in json.loads(answer.read())["error"]["message"]
    assert post(PLAIN, {"prompt": "hello", "max_tokens": 2})


def keys():
    """Only /health needs no key."""
    body = {"prompt": "hello", "max_tokens": 2}
    for header in (None, "Bearer", "Bearer ", "Bearer wrong", "Bearer secret1x", "Basic secret1", "secret1"):
        for path in (PLAIN, "/v1/models", "/metrics"):
            headers = {"Authorization": header} if header else {}
            status, answer, text = call(path, body if path == PLAIN else None, headers=headers)
            assert status == 401, (header, path, status)
            assert json.loads(text)["error"]["code"] == "invalid_api_key" and answer["WWW-Authenticate"] == "Bearer"
    for key in ("secret1", "secret2"):
        status, _, text = call(PLAIN, body, headers={"Authorization": "Bearer " + key})
        assert status == 200, text
        assert call("/metrics", headers={"authorization": "bearer " + key})[0] == 200
    assert call("/health")[0] == 200


# ---- clients that go, and clients that are slow ---------------------------------------------------------


def begin(body, **options):
    connection = Connection(**options)
    connection.request("POST", PLAIN, json.dumps(body), {"Content-Type": "application/json"})
    return connection


def cancelled():
    """A client that closes its connection takes its texts along; the others get what they get alone."""
    others = bodies()[:8]
    answers = expected(others)
    before = metrics()["zt_requests_cancelled_total"]
    connections = [begin(dict(LONG, stream=True, n=2)) for _ in range(10)] + [begin(LONG) for _ in range(10)]
    for connection in connections[:10]:
        assert connection.getresponse().read(200).startswith(b"data: ")
    wait_for(lambda: metrics()["zt_texts_open"] == 30)
    for connection in connections[::2]:
        connection.close()
    for (path, body), answer in zip(others, answers):
        compare_whole(path, body, answer)
    wait_for(lambda: metrics()["zt_texts_open"] == 15)
    for connection in connections[1::2]:
        connection.close()
    wait_idle()
    assert metrics()["zt_requests_cancelled_total"] - before == 20


def smooth():
    """While a long prompt becomes tokens, a text that runs goes on: the longest time without a token is shorter than what the prompt takes."""
    answer = begin(dict(LONG, stream=True)).getresponse()
    times, gaps = [], []

    def read():
        try:
            while answer.readline():
                times.append(time.time())
        except (OSError, ValueError, AttributeError, http.client.HTTPException):
            pass

    threading.Thread(target=read, daemon=True).start()
    wait_for(lambda: len(times) > 20)
    text = json.dumps({"prompt": "hello on the she " * 110000})
    for _ in range(6):
        start = time.time()
        status, _, words = call(PLAIN, text=text)
        took = time.time() - start
        assert status == 400 and "the context" in words, words
        inside = [start] + [one for one in times if start <= one <= start + took] + [start + took]
        gaps.append((max(b - a for a, b in zip(inside, inside[1:])), took, len(inside)))
        if gaps[-1][0] < took / 2:
            break
    print("longest time without a token, time of the request, tokens:", *gaps)
    assert gaps[-1][0] < gaps[-1][1] / 2, gaps


def slow_reader():
    """A stream that nobody reads is cut before it holds much memory."""
    body = dict(LONG, stream=True, logprobs=1000)
    connection = begin(body, receive_buffer=4096)
    answer = connection.getresponse()
    assert answer.status == 200
    wait_for(lambda: metrics()["zt_requests_cancelled_total"] == 1)
    assert metrics()["zt_texts_open"] == 0
    read = 0
    try:
        while piece := answer.read(65536):
            read += len(piece)
    except (http.client.IncompleteRead, ConnectionError):
        pass
    else:
        raise AssertionError("the stream looks whole")
    assert read < 4 << 20, read


def long_answer():
    """An answer of more than 16 MiB is refused, and the server goes on."""
    status, _, text = call(PLAIN, dict(LONG, logprobs=1000))
    assert status == 400 and "16 MiB" in text, (status, text)
    wait_idle()
    assert post(PLAIN, {"prompt": "hello", "max_tokens": 2})


def queue_full():
    """--queue 2: the third that waits is refused, and may come again."""
    running = begin(dict(LONG, n=64))
    wait_for(lambda: metrics()["zt_texts_open"] == 64)
    waiting = [begin({"prompt": "hello", "max_tokens": 2}) for _ in range(2)]
    wait_for(lambda: metrics()["zt_requests_waiting"] == 2)
    status, headers, text = call(PLAIN, {"prompt": "hello"})
    assert status == 429 and headers["Retry-After"] == "1", (status, text)
    assert json.loads(text)["error"]["code"] == "queue_full"
    running.close()
    for connection in waiting:
        assert connection.getresponse().status == 200
    assert call(PLAIN, {"prompt": "hello", "max_tokens": 2})[0] == 200


def late():
    """--timeout 1: what takes longer is cut, a stream by an event."""
    streamed = begin(dict(LONG, n=32, stream=True))
    whole = begin(dict(LONG, n=32))
    text = streamed.getresponse().read().decode()
    last = text.rstrip("\n").split("\n\n")[-1]
    assert json.loads(last[6:])["error"]["code"] == "timeout", last
    answer = whole.getresponse()
    assert answer.status == 408, answer.status
    assert json.loads(answer.read())["error"]["code"] == "timeout"
    wait_idle()
    assert call(PLAIN, {"prompt": "hello", "max_tokens": 2})[0] == 200


def resident(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS:"))


def flat(all_bodies=None):
    """Memory is the same after 1,000 requests and after 2,000, in kilobytes. A leak grows in each 1,000; a heap settles, and how
    soon depends on which threads meet: what has grown gets two more times 1,000 requests."""
    pid, sizes = int(os.environ["SERVER"]), []
    all_bodies = all_bodies or bodies()
    connection = Connection()
    for index in range(4000):
        path, body = all_bodies[index % len(all_bodies)]
        wrong = index % 10 == 9
        body = dict(body, seed=index, stream=index % 3 == 0, **({"unknown": 1} if wrong else {}))
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        assert answer.status == (400 if wrong else 200), (answer.status, body)
        if index % 10 == 5:
            begin(dict(LONG, stream=index % 20 == 5)).close()
        if (index + 1) % 500 == 0:
            wait_idle()
            sizes.append(resident(pid))
            if len(sizes) in (4, 6, 8) and sizes[-1] - sizes[-3] <= 1024:
                break
    print("kilobytes after each 500 requests:", *sizes)
    assert sizes[-1] - sizes[-3] <= 1024, sizes


def short(body):
    return body if "max_completion_tokens" in body else dict(body, max_tokens=min(body.get("max_tokens", 30), 30))


def tools_flat():
    flat([(path, short(body)) for path, body in tool_bodies() + bodies()])


# ---- the end of the server --------------------------------------------------------------------------------


def hold():
    """Holds a stream until the server ends it; prints how it ended."""
    connection = begin(dict(LONG, stream=True, **json.loads(sys.argv[3])))
    answer = connection.getresponse()
    answer.read(10)
    print("begun", flush=True)
    text = answer.read().decode().rstrip("\n").split("\n\n")
    print(text[-1])


# ---- OpenAI's client ----------------------------------------------------------------------------------------


def openai_client():
    import openai

    client = openai.OpenAI(base_url=ADDRESS + "/v1", api_key="none", max_retries=0)
    assert [model.id for model in client.models.list()] == ["model"]
    options = {"model": "model", "messages": HELLO, "temperature": 0, "max_tokens": 12, "seed": 1}
    whole = client.chat.completions.create(**options)
    streamed = client.chat.completions.create(stream=True, stream_options={"include_usage": True}, **options)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in streamed if chunk.choices)
    assert text == whole.choices[0].message.content == expected([(CHAT, {**options})])[0][0]["text"]
    many = client.chat.completions.create(**dict(options, n=3, temperature=2, logprobs=True, top_logprobs=2))
    assert len(many.choices) == 3 and len(many.choices[0].logprobs.content[0].top_logprobs) == 2
    ids = client.completions.create(model="model", prompt=[[50, 60], [70]], max_tokens=5)
    assert len(ids.choices) == 2 and ids.usage.prompt_tokens == 3
    plain = client.completions.create(model="model", prompt=["hello", "on"], max_tokens=5, stop=["z"])
    assert len(plain.choices) == 2 and plain.usage.prompt_tokens > 0
    vector = client.embeddings.create(model="model", input="hello").data[0].embedding
    other = post(EMBED, {"input": "hello"})["data"][0]["embedding"]
    assert len(vector) == len(other) and max(abs(a - b) for a, b in zip(vector, other)) < 1e-6
    with client.chat.completions.create(**dict(options, stream=True, max_tokens=100000)) as stream:
        next(iter(stream))  # and it is cancelled
    wait_idle()
    try:
        client.chat.completions.create(**dict(options, model="gpt-4o"))
        raise AssertionError("an unknown model runs")
    except openai.NotFoundError as error:
        assert error.code == "model_not_found"
    try:
        client.chat.completions.create(**dict(options, logit_bias={"5": 1}))
        raise AssertionError("logit_bias is ignored")
    except openai.BadRequestError as error:
        assert error.param == "logit_bias"


def openai_tools():
    """Tool calls by OpenAI's client: whole, in streams, asynchronously, and with a schema."""
    import openai

    client = openai.OpenAI(base_url=ADDRESS + "/v1", api_key="none", max_retries=0)
    options = {"model": "model", "messages": HELLO, "temperature": 1.5, "max_tokens": 600, "seed": 1, "tools": TOOLS}
    whole = client.chat.completions.create(tool_choice="required", **options)
    message = whole.choices[0].message
    assert message.tool_calls and whole.choices[0].finish_reason == "tool_calls", whole
    found = {}
    for chunk in client.chat.completions.create(tool_choice="required", stream=True, **options):
        for delta in chunk.choices[0].delta.tool_calls or []:
            one = found.setdefault(delta.index, {"id": delta.id, "name": delta.function.name, "arguments": ""})
            one["arguments"] += delta.function.arguments or ""
    assert [(one["name"], one["arguments"]) for one in found.values()] == [(one.function.name, one.function.arguments) for one in message.tool_calls]
    assert all(valid_call((one.function.name, json.loads(one.function.arguments))) for one in message.tool_calls)
    with client.chat.completions.stream(tool_choice="required", **options) as stream:  # the helper puts the deltas together
        done = [event for event in stream if event.type == "tool_calls.function.arguments.done"]
    assert [one.arguments for one in done] == [one.function.arguments for one in message.tool_calls], done
    named = client.chat.completions.create(tool_choice={"type": "function", "function": {"name": "weather"}}, parallel_tool_calls=False, **options)
    assert [one.function.name for one in named.choices[0].message.tool_calls] == ["weather"]
    answer = {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "sunny"}
    again = client.chat.completions.create(**dict(options, messages=HELLO + [message, answer], tool_choice="none", max_tokens=5))
    assert again.choices[0].message.tool_calls is None
    shaped = client.chat.completions.create(response_format=FORMAT, **{key: value for key, value in options.items() if key != "tools"})
    assert set(json.loads(shaped.choices[0].message.content)) == {"a", "b"}
    try:
        client.chat.completions.create(**dict(options, tools=[{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "not": {}}}}]))
        raise AssertionError("a schema is ignored")
    except openai.BadRequestError as error:
        assert error.param == "tools", error


globals()[sys.argv[1]]()
