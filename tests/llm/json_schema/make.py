#!/usr/bin/env python3
"""make.py SUITE OUT.json - the cases of the official JSON Schema test suite that zt's structured output is held to.

SUITE is a checkout of https://github.com/json-schema-org/JSON-Schema-Test-Suite (MIT, Copyright (c) 2012 Julian Berman); of it the
files of FILES in tests/draft2020-12, and the formats of FORMATS. Each case becomes [file, description, schema, instances], an
instance [text, valid]: its JSON without white space. Instances that JSON writes in another way than Python (1.0, numbers beyond a
double) stay as the suite's parser reads them.
"""
import json
import pathlib
import sys

FILES = """additionalProperties allOf anyOf boolean_schema const enum exclusiveMaximum exclusiveMinimum items maxItems maxLength
maxProperties maximum minItems minLength minProperties minimum not oneOf pattern patternProperties prefixItems properties ref
required type uniqueItems multipleOf contains dependentRequired if-then-else propertyNames unevaluatedProperties""".split()
FORMATS = "date time date-time duration email hostname ipv4 ipv6 uuid".split()

suite, out = pathlib.Path(sys.argv[1]) / "tests/draft2020-12", sys.argv[2]
cases = []
for name in FILES + ["optional/format/" + name for name in FORMATS]:
    for case in json.loads((suite / (name + ".json")).read_text()):
        instances = [[json.dumps(t["data"], separators=(",", ":"), ensure_ascii=False), t["valid"]] for t in case["tests"]]
        cases.append([name, case["description"], case["schema"], instances])
pathlib.Path(out).write_text(json.dumps(cases, separators=(",", ":"), ensure_ascii=False) + "\n")
