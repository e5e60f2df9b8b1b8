#!/usr/bin/env python3
"""tool-call-draws.py MODEL [DRAWS [FORM...]] - tool calls in every form of lib/llm/reply, checked by an independent validator.

For each form (or those named) DRAWS (6) replies to a request with two tools of random schemas, at temperature 1.5, of each kind: tool_choice
required, a named tool, auto after examples of calls, parallel_tool_calls false; by zt-run --jsonl (ZT_BIN). The arguments of each call are
validated by the PyPI package jsonschema. A reply that has to call and does not, although it was not cut by its length, is an error. Prints the
counts of each form; exit status 1 if something is wrong.
"""
import json
import os
import random
import subprocess
import sys
import tempfile

import jsonschema

BAR, BLOCK = "\uff5c", "\u2581"


def ds(words):
    return "<" + BAR + words.replace("_", BLOCK) + BAR + ">"


def dsml(words):
    return words.replace("DSML:", BAR + "DSML" + BAR)


# What a chat template has by which the form is known, and an example of a call of now(zone="utc").
FORMS = {
    "qwen3-coder": ("<tool_call> <function=", "<tool_call>\n<function=now>\n<parameter=zone>\nutc\n</parameter>\n</function>\n</tool_call>"),
    "seed-oss": ("<seed:tool_call> <seed:think>", "<seed:tool_call>\n<function=now>\n<parameter=zone>utc</parameter>\n</function>\n</seed:tool_call>"),
    "glm": ("<tool_call> <arg_key>", "<tool_call>now\n<arg_key>zone</arg_key>\n<arg_value>utc</arg_value>\n</tool_call>"),
    "minimax": ("<minimax:tool_call>", "<minimax:tool_call>\n<invoke name=\"now\">\n<parameter name=\"zone\">utc</parameter>\n</invoke>\n</minimax:tool_call>"),
    "minicpm": ("<function name= <param name=", "<function name=\"now\"><param name=\"zone\">utc</param></function>"),
    "dsml": (dsml("<DSML:function_calls>"), dsml("<DSML:function_calls>\n<DSML:invoke name=\"now\">\n<DSML:parameter name=\"zone\" string=\"true\">utc</DSML:parameter>\n"
                                                 "</DSML:invoke>\n</DSML:function_calls>")),
    "hermes": ("<tool_call>", '<tool_call>\n{"name": "now", "arguments": {"zone": "utc"}}\n</tool_call>'),
    "hermes-2": ('<tool_call> {"arguments": <args-dict>, "name": <function-name>}', '<tool_call>\n{"arguments": {"zone": "utc"}, "name": "now"}\n</tool_call>'),
    "deepseek-r1": (ds("tool_call_begin") + " ```json", ds("tool_calls_begin") + ds("tool_call_begin") + "function" + ds("tool_sep") + 'now\n```json\n{"zone": "utc"}\n```'
                    + ds("tool_call_end") + ds("tool_calls_end")),
    "deepseek-v3.1": (ds("tool_call_begin"), ds("tool_calls_begin") + ds("tool_call_begin") + "now" + ds("tool_sep") + '{"zone": "utc"}' + ds("tool_call_end") + ds("tool_calls_end")),
    "kimi": ("<|tool_call_argument_begin|>", '<|tool_calls_section_begin|><|tool_call_begin|>functions.now:0<|tool_call_argument_begin|>{"zone": "utc"}<|tool_call_end|>'),
    "mistral": ("[TOOL_CALLS]", '[TOOL_CALLS] [{"name": "now", "arguments": {"zone": "utc"}}]'),
    "mistral-args": ("[TOOL_CALLS] [ARGS]", '[TOOL_CALLS]now[ARGS]{"zone": "utc"}'),
    "mistral-id": ("[TOOL_CALLS] [CALL_ID] [ARGS]", '[TOOL_CALLS]now[CALL_ID]abcdefghi[ARGS]{"zone": "utc"}'),
    "solar": ("<|tool_call:begin|>", '<|tool_calls|><|tool_call:begin|>abcdefghi<|tool_call:name|>now<|tool_call:args|>{"zone": "utc"}<|tool_call:end|>'),
    "functionary": ("<function=f>{}</function>", '<function=now>{"zone": "utc"}</function>'),
    "command-r": ("<|START_ACTION|> <|START_THINKING|>", '<|START_ACTION|>[\n{"tool_call_id": "0", "tool_name": "now", "parameters": {"zone": "utc"}}\n]<|END_ACTION|>'),
    "nemotron": ("<TOOLCALL>", '<TOOLCALL>[{"name": "now", "arguments": {"zone": "utc"}}]</TOOLCALL>'),
    "granite": ("<|tool_call|>", '<|tool_call|>[{"name": "now", "arguments": {"zone": "utc"}}]'),
    "apertus": ("<|tools_prefix|>", '<|tools_prefix|>[{"now": {"zone": "utc"}}]<|tools_suffix|>'),
    "firefunction": ("functools[", 'functools[{"name": "now", "arguments": {"zone": "utc"}}]'),
    "lfm2": ("<|tool_call_start|>", '<|tool_call_start|>[now(zone="utc")]<|tool_call_end|>'),
    "gemma4": ("<|tool_call>", '<|tool_call>call:now{zone:<|"|>utc<|"|>}<tool_call|>'),
    "functiongemma": ("<start_function_call>", "<start_function_call>call:now{zone:<escape>utc<escape>}<end_function_call>"),
    "tool_code": ("```tool_code", '```tool_code\nnow(zone="utc")\n```'),
    "pythonic": ("[func_name1(params_name1=1)]", '[now(zone="utc")]'),
    "llama3": ('{"name": f, "parameters": a}', '{"name": "now", "parameters": {"zone": "utc"}}'),
    "json": ('{"name": f, "arguments": a}', '{"name": "now", "arguments": {"zone": "utc"}}'),
    "harmony": ("<|start|> <|channel|> <|message|>", '<|channel|>commentary to=functions.now <|constrain|>json<|message|>{"zone": "utc"}'),
}
TEMPLATE = """{#- %s -#}
{%%- if tools %%}Functions: {{ tools | tojson }}
{%% endif %%}{%% for m in messages %%}<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{%% endfor %%}<|im_start|>assistant
"""


random.seed(11)
source = open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "schema-draws.py"), encoding="utf-8").read()
made = {"random": random}
exec(source[source.index("WORDS = "):source.index("requests, used")], made)


def parameters():
    names = random.sample(made["WORDS"], random.randint(1, 4))
    kinds = [lambda: {"type": "string"}, lambda: {"type": ["string", "null"]}, lambda: {"anyOf": [{"type": "string", "minLength": 1, "maxLength": 9}, {"type": "null"}]},
             lambda: {"$ref": "#/$defs/unit"}, lambda: made["any_schema"](2), lambda: made["any_schema"](1)]
    return {"type": "object", "properties": {name: random.choice(kinds)() for name in names}, "required": [n for n in names if random.random() < 0.7],
            "additionalProperties": False, "$defs": {"unit": {"enum": ["C", "F", "a <b>"], "title": "Unit"}}}


def tool(name, schema):
    return {"type": "function", "function": {"name": name, "description": "about " + name, "parameters": schema}}


def requests_of(form, draws):
    example = FORMS[form][1]
    asked = [{"role": "user", "content": "What time is it?"}, {"role": "assistant", "content": example},
             {"role": "user", "content": "And now?"}, {"role": "assistant", "content": example}, {"role": "user", "content": "Call get_data, please."}]
    kinds = {"required": {"tool_choice": "required"}, "named": {"tool_choice": {"type": "function", "function": {"name": "get_data"}}},
             "auto": {}, "single": {"tool_choice": "required", "parallel_tool_calls": False}}
    for kind, members in kinds.items():
        for draw in range(draws):
            tools = [tool("get_data", parameters()), tool("now", parameters())]
            yield kind, tools, {"id": [kind, draw], "messages": asked if kind == "auto" else asked[-1:], "tools": tools, "n": 300, "temp": 1.5, "top_k": 0,
                                "top_p": 1, "min_p": 0.02, "seed": random.randrange(1 << 30), **members}


def check(answer, kind, tools):
    """What is wrong with it; None: nothing."""
    by_name = {t["function"]["name"]: t["function"]["parameters"] for t in tools}
    calls, cut = answer["tool_calls"], answer["stop"] == "length"
    if "tool_call_error" in answer and not (cut and ("complete" in answer["tool_call_error"] or "tags" in answer["tool_call_error"] or "arguments" in answer["tool_call_error"]
                                                     or "name" in answer["tool_call_error"] or "text after" in answer["tool_call_error"])):
        return answer["tool_call_error"]
    if kind != "auto" and not calls and not cut:
        return "no call"
    if kind == "named" and any(c["name"] != "get_data" for c in calls):
        return "another tool"
    if kind == "single" and len(calls) > 1:
        return "several calls"
    for call in calls:
        try:
            jsonschema.validate(call["arguments"], by_name[call["name"]], cls=jsonschema.Draft202012Validator,
                                format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)
        except Exception as error:  # any failure is one
            return str(error).splitlines()[0]
    return None


def run_form(model, form, draws):
    asked = list(requests_of(form, draws))
    with tempfile.NamedTemporaryFile("w", suffix=".jinja", encoding="utf-8") as file:
        file.write(TEMPLATE % FORMS[form][0])
        file.flush()
        zt_run = os.path.join(os.environ.get("ZT_BIN", "build/bin"), "zt-run")
        run = subprocess.run([zt_run, "-m", model, "--template", file.name, "--jsonl"], input="".join(json.dumps(r) + "\n" for _, _, r in asked), text=True,
                             capture_output=True)
    counts = dict.fromkeys(["calls", "with", "cut", "refused", "wrong"], 0)
    lines = run.stdout.splitlines()
    if len(lines) != len(asked):
        print(form, run.stderr)
        counts["wrong"] += 1
    for line, (kind, tools, request) in zip(lines, asked):
        answer = json.loads(line)
        if "error" in answer:
            counts["refused"] += 1
            print("refused:", form, answer["error"])
            continue
        counts["calls"] += len(answer["tool_calls"])
        counts["with"] += bool(answer["tool_calls"])
        counts["cut"] += answer["stop"] == "length" and not answer["tool_calls"]
        wrong = check(answer, kind, tools)
        if wrong:
            counts["wrong"] += 1
            print("wrong:", form, kind, wrong, json.dumps(answer["text"]), json.dumps(tools))
    print(f"{form}: {len(asked)} replies, {counts['with']} with calls, {counts['calls']} calls, {counts['cut']} cut before a call, "
          f"{counts['refused']} refused, {counts['wrong']} wrong", flush=True)
    return counts


model = sys.argv[1]
draws = int(sys.argv[2]) if len(sys.argv) > 2 else 6
totals = {}
for form in sys.argv[3:] or FORMS:
    for key, value in run_form(model, form, draws).items():
        totals[key] = totals.get(key, 0) + value
print(f"{totals['calls']} calls in {totals['with']} replies, {totals['cut']} cut before a call, {totals['refused']} refused, {totals['wrong']} wrong")
sys.exit(totals["wrong"] > 0 or totals["with"] == 0)
