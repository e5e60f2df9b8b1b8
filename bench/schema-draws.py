#!/usr/bin/env python3
"""schema-draws.py MODEL [SCHEMAS [DRAWS]] - texts drawn by JSON Schemas, checked by an independent validator.

SCHEMAS (200) random schemas with DRAWS (20) texts each at temperature 1.5 without top-k, top-p and min-p, by zt-run --jsonl (ZT_BIN);
each text that is complete is parsed and validated by the PyPI package jsonschema (with its format checker). Prints the counts, and each
text that is not valid; exit status 1 if there is one.
"""
import json
import os
import random
import subprocess
import sys

import jsonschema

model, schemas, draws = sys.argv[1], int((sys.argv + [0, 200])[2] or 200) if len(sys.argv) > 2 else 200, int(sys.argv[3]) if len(sys.argv) > 3 else 20
random.seed(7)
WORDS = "name age size kind city list value note code open first last".split()


def integer():
    low = random.choice([None, random.randint(-500, 500)])
    schema = {"type": "integer"}
    if low is not None:
        schema[random.choice(["minimum", "exclusiveMinimum"])] = low
    if random.random() < 0.6:
        schema[random.choice(["maximum", "exclusiveMaximum"])] = (low or 0) + random.randint(2, 3000)
    return schema


def number():
    schema = {"type": "number"}
    if random.random() < 0.6:
        schema[random.choice(["minimum", "exclusiveMinimum"])] = random.randint(-9, 3)
    if random.random() < 0.6:
        schema[random.choice(["maximum", "exclusiveMaximum"])] = random.randint(4, 999)
    return schema


def string():
    kind = random.random()
    if kind < 0.35:
        return {"type": "string", "minLength": random.randint(0, 3), "maxLength": random.randint(3, 12)}
    if kind < 0.6:
        return {"type": "string", "pattern": random.choice(
            ["^[a-z]{2,8}$", "^\\d{3}-\\d{4}$", "^(red|gr[ae]y)( light)?$", "^[A-Z][\\w ]{0,6}\\.$", "^[^\\s]{1,5}$", "^\\S{2}[\"\\\\]$"])}
    if kind < 0.8:
        return {"type": "string", "format": random.choice("date time date-time ipv4 ipv6 uuid email hostname duration".split())}
    return {"enum": random.sample(WORDS, random.randint(1, 5))}


def array(depth):
    schema = {"type": "array", "items": any_schema(depth - 1), "minItems": random.randint(0, 2)}
    schema["maxItems"] = schema["minItems"] + random.randint(0, 2)
    if random.random() < 0.3:
        schema["prefixItems"] = [any_schema(depth - 1) for _ in range(random.randint(1, 2))]
    return schema


def object_(depth):
    names = random.sample(WORDS, random.randint(1, 4))
    schema = {"type": "object", "properties": {name: any_schema(depth - 1) for name in names},
              "required": [name for name in names if random.random() < 0.7]}
    schema["additionalProperties"] = False
    if random.random() < 0.2:
        schema = {"allOf": [schema, {"properties": {names[0]: {"type": ["string", "integer", "null", "object", "array", "boolean"]}}}],
                  "type": "object"}
    return schema


def any_schema(depth):
    choices = [integer, number, string, lambda: {"type": "boolean"}, lambda: {"const": random.choice([3, 2.5, None, "x\"\n", [1, {"a": 2}]])}]
    if depth > 0:
        choices += [lambda: array(depth), lambda: object_(depth), lambda: object_(depth),
                    lambda: {"anyOf": [any_schema(depth - 1), any_schema(depth - 1)]},
                    lambda: {"oneOf": [string(), {"type": "null"}, {"type": "array", "items": integer(), "maxItems": 2}]}]
    return random.choice(choices)()


def tree():
    return {"$ref": "#/$defs/node", "$defs": {"node": {"type": "object", "additionalProperties": False, "required": ["value"], "properties": {
        "value": any_schema(0), "left": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}}}}}


requests, used = [], []
for i in range(schemas):
    schema = tree() if i % 20 == 0 else any_schema(3)
    used.append(schema)
    for draw in range(draws):
        requests.append(json.dumps({"id": [i, draw], "prompt": random.choice(["Write JSON.", "A person, as JSON:", "Data:"]), "json_schema": schema,
                                    "seed": 1000 * i + draw, "n": 250, "temp": 1.5, "top_k": 0, "top_p": 1, "min_p": 0}))
tool = os.path.join(os.environ.get("ZT_BIN", "build/bin"), "zt-run")
run = subprocess.run([tool, "-m", model, "--jsonl"], input="\n".join(requests) + "\n", text=True, capture_output=True)
valid = cut = refused = wrong = tokens = 0
for line in run.stdout.splitlines():
    answer = json.loads(line)
    if "error" in answer:
        refused += 1
        print("refused:", answer["error"])
        continue
    schema = used[answer["id"][0]]
    tokens += answer["generated_tokens"]
    if not answer["complete"]:
        cut += 1
        continue
    try:
        value = json.loads(answer["text"])
        jsonschema.validate(value, schema, cls=jsonschema.Draft202012Validator,
                            format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)
        valid += 1
    except Exception as error:  # any failure is one
        wrong += 1
        print("not valid:", json.dumps(schema), answer["text"], str(error).splitlines()[0])
print(f"{schemas} schemas, {len(requests)} draws, {tokens} tokens: {valid} valid, {wrong} not valid, {cut} cut by -n, {refused} refused")
if run.stderr and refused == 0:
    print(run.stderr)
sys.exit(wrong > 0 or valid == 0)
