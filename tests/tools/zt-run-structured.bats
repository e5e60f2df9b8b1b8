#!/usr/bin/env bats
# zt-run: structured output. What is written fits the form, greedy and drawn, alone and in a batch, with any chunk and draft.

load ../common/helper

setup_file() {
    make_models
}

make_forms() {
    cat >person.json <<'END'
{"type": "object", "required": ["name", "age", "tags"], "additionalProperties": false, "properties": {
  "name": {"type": "string", "minLength": 1, "maxLength": 12}, "age": {"type": "integer", "minimum": 0, "maximum": 130},
  "tags": {"type": "array", "items": {"enum": ["a", "b", "c"]}, "maxItems": 3}}}
END
    printf 'root ::= item ("," item){1,3}\nitem ::= [a-z]{1,5} | "\\"" [^"\\n]{0,4} "\\""\n' >list.gbnf
}

constrained() {
    zt-run -m model.gguf --raw -p "hello on the" "$@"
}

fits_person() {
    python3 -c '
import json, sys
for line in sys.stdin:
    x = json.loads(line)
    assert list(x) == ["name", "age", "tags"], x
    assert 1 <= len(x["name"]) <= 12 and 0 <= x["age"] <= 130 and type(x["age"]) is int, x
    assert len(x["tags"]) <= 3 and set(x["tags"]) <= {"a", "b", "c"}, x
'
}

@test "each form: what is written fits, greedy and drawn hot" {
    make_forms
    for temp in 0 1.5; do
        for seed in 1 2 3 4 5; do
            args=(--temp $temp --seed $seed --top-k 0 --top-p 1 --min-p 0)
            constrained "${args[@]}" --json-schema person.json | tr '\n' ' ' >>people
            echo >>people
            [[ $(constrained "${args[@]}" --regex '[0-9]{4}-[0-9]{2}') =~ ^[0-9]{4}-[0-9]{2}$ ]]
            [[ $(constrained "${args[@]}" --choices red green blue) =~ ^(red|green|blue)$ ]]
            constrained "${args[@]}" --grammar list.gbnf | LC_ALL=C.UTF-8 grep -Pzx '([a-z]{1,5}|"[^"\n]{0,4}")(,([a-z]{1,5}|"[^"\n]{0,4}")){1,3}\x00?' >/dev/null
        done
    done
    fits_person <people
}

@test "the same text for any chunk, draft and cache, and in a batch" {
    make_forms
    for form in "--json-schema person.json" "--grammar list.gbnf" "--regex [a-z]{3,9}(,[0-9]+){2}"; do
        # shellcheck disable=SC2086
        for temp in 0 1; do
            constrained $form --temp $temp >want
            for args in "--chunk 1" "--chunk 3" --speculate --no-kv-cache "-t 1"; do
                constrained $form --temp $temp $args >got
                cmp want got
            done
        done
    done
    for i in {1..6}; do printf '{"prompt":"hello on the","raw":true,"seed":%d}\n' $i; done >requests
    zt-run -m model.gguf --jsonl -i requests --json-schema person.json | sed 's/.*"text":\(".*"\),"ids".*/\1/' >batch
    for i in {1..6}; do
        constrained --seed $i --json-schema person.json --json | sed 's/.*"text":\(".*"\),"ids".*/\1/'
    done >alone
    cmp batch alone
}

# Requests with different forms, seeds and temperatures.
make_requests() {
    make_forms
    python3 - >requests <<'END'
import json
forms = [{"json-schema": json.load(open("person.json"))}, {"grammar": open("list.gbnf").read()}, {"regex": "[a-z]{3,9}(,[0-9]+){2}"},
         {"choices": ["hello there", "hello you", "good day"]}, {"response_format": {"type": "json_object"}}, {},
         {"regex": "([^,]{1,6},){4}"}, {"json-schema": {"enum": ["w%d" % (i * i) for i in range(500)]}}]
for i, form in enumerate(forms * 2):
    prompt = ["hello on the", "the", "a list of the people in the house and on the hill"][i % 3]
    print(json.dumps({"id": i, "prompt": prompt, "raw": True, "seed": 7 * i, "temp": [0, 1, 1.4][i % 3], "n": 20 + i, **form}))
END
}

# The texts of a batch, a line each in the order of the ids.
batch_texts() {
    zt-run -m model.gguf --jsonl "$@" | python3 -c '
import json, sys
for a in sorted(map(json.loads, sys.stdin), key=lambda a: a["id"]):
    print(json.dumps([a["id"], a["text"], a["ids"], a["stop"], a.get("complete")]))'
}

@test "requests of different forms side by side: the same texts alone, in any order, with any chunk and number of threads" {
    make_requests
    batch_texts -i requests >want
    [ "$(wc -l <want)" -eq 16 ]
    [ "$(grep -c '"grammar", true\]$' want)" -ge 6 ]
    while read -r request; do batch_texts <<<"$request"; done <requests >alone
    cmp want alone
    for args in "--chunk 1" "--chunk 5" "-t 1" "-t 2 --chunk 2"; do
        # shellcheck disable=SC2086
        tac requests | batch_texts $args >got
        cmp want got
    done
    # some of them, with others beside them
    sed -n '1,5p;2p;9,16p' requests | batch_texts >got
    sed -n '1,5p;2p;9,16p' want | sort -s -t[ -k2 -V | cmp - got
}

@test "each form with drafts and without, greedy and drawn: the same text" {
    make_forms
    echo '{"type":"array","minItems":4,"items":{"enum":["hello on the","hello on the hill"]}}' >repeats.json
    text="hello on the hello on the"
    for form in "--json-schema person.json" "--json-schema repeats.json" "--grammar list.gbnf" "--regex (hello.on.the.[ah]?){3,9}" \
        "--regex ([^,]{1,6},){4}"; do
        for options in "--temp 0" "--temp 1 --seed 3" "--temp 1.4 --seed 5 --top-k 0 --top-p 1"; do
            # shellcheck disable=SC2086
            zt-run -m model.gguf --raw -p "$text" -n 90 $options $form --json >want
            for args in "--speculate" "--speculate --chunk 1" "--speculate --chunk 3 -t 1"; do
                # shellcheck disable=SC2086
                zt-run -m model.gguf --raw -p "$text" -n 90 $options $form --json $args | tee -a drafts >got
                cmp <(sed 's/,"prompt_tokens.*"stop"/,"stop"/; s/,"\(load_s\|drafted\).*//' want) \
                    <(sed 's/,"prompt_tokens.*"stop"/,"stop"/; s/,"\(load_s\|drafted\).*//' got)
            done
        done
    done
    # drafts were made, and some of them accepted
    [ "$(grep -c '"accepted":[1-9]' drafts)" -ge 5 ]
}

@test "the end: stop is grammar, eos, stop or length; complete says whether the text fits" {
    [[ $(constrained --choices yes --json) == *'"text":"yes"'*'"stop":"grammar","form":"choices","complete":true'* ]]
    [[ $(constrained --regex 'a+' --temp 0 -n 3 --json) == *'"stop":"length","form":"regex","complete":true'* ]]
    run --separate-stderr constrained --regex 'a{9}b' -n 2
    [ "$status" -eq 0 ]
    [[ $stderr == *"the text ends before it fits the regex (stop: length)"* ]]
    [[ $(constrained --regex 'a{9}b' -n 2 --json) == *'"complete":false'* ]]
    [[ $(constrained --regex 'ab+c' --stop b --json) == *'"text":"a"'*'"stop":"stop","form":"regex","complete":false'* ]]
    # the end-of-text token comes where it may: the token 284 is the end, and none of it is written
    [[ $(constrained --regex '' --json) == *'"text":"","ids":[]'*'"stop":"grammar"'* ]]
    constrained --regex '(x|y){1,40}' --ignore-eos --json | grep -q '"generated_tokens":40.*"stop":"grammar"'
}

@test "requests of --jsonl: OpenAI's response_format and the options by name" {
    cat >requests <<'END'
{"id":1,"prompt":"a","response_format":{"type":"json_object"},"n":40}
{"id":2,"prompt":"a","response_format":{"type":"json_schema","json_schema":{"name":"x","strict":true,"schema":{"enum":["p","q"]}}}}
{"id":3,"prompt":"a","response_format":{"type":"text"},"n":2}
{"id":4,"prompt":"a","grammar":"root ::= \"u\" | \"v\""}
{"id":5,"prompt":"a","choices":["s","t"]}
{"id":6,"prompt":"a","regex":"[0-9]{2}"}
{"id":7,"prompt":"a","json-schema":{"const":7}}
END
    zt-run -m model.gguf --raw --jsonl -i requests >answers
    [[ $(sed -n 1p answers) == *'"text":"{'*'"form":"json_object"'* ]]
    [[ $(sed -n 2p answers) =~ '"text":"\"'[pq]'\""'.*'"form":"json_schema","complete":true' ]]
    [[ $(sed -n 3p answers) != *'"form"'* ]]
    [[ $(sed -n 4p answers) =~ '"text":"'[uv]'"' ]]
    [[ $(sed -n 5p answers) =~ '"text":"'[st]'"' ]]
    [[ $(sed -n 6p answers) =~ '"text":"'[0-9]{2}'"' ]]
    [[ $(sed -n 7p answers) =~ '"text":"7'(\.0)?'"' ]]
}

@test "a form that is wrong or not supported is named: 65; of a request, in its answer" {
    while IFS='|' read -r code word args; do
        run --separate-stderr bash -c "zt-run -m model.gguf --raw -p hi $args"
        echo "$args: $status $stderr"
        [ "$status" -eq "$code" ]
        one_message zt-run
        [[ $stderr == *"$word"* ]]
        [ -z "$output" ]
    done <<'END'
65|lookahead and lookbehind are not supported|--regex '(?=a)b'
65|backreferences are not supported|--regex '(a)\1'
65|stdin: line 1: '::=' expected|--grammar - <<<'root = x'
65|left recursion: rule 'root'|--grammar - <<<'root ::= root "a" | "b"'
65|#/properties/x: "multipleOf" is not supported|--json-schema - <<<'{"properties":{"x":{"multipleOf":3}}}'
65|no text fits|--json-schema - <<<false
65|stdin: |--json-schema - <<<'{'
66|nonesuch|--json-schema nonesuch
66|nonesuch|--grammar nonesuch
64|exclude each other|--regex a --choices b
64|unexpected argument|--regex a b
END
    run --separate-stderr zt-run -m model.gguf --raw --grammar - -i - </dev/null
    [ "$status" -eq 64 ]
    [[ $stderr == *"--grammar comes from stdin"* ]]
    cat >requests <<'END'
{"id":1,"prompt":"a","response_format":{"type":"xml"}}
{"id":2,"prompt":"a","response_format":{"type":"json_schema"}}
{"id":3,"prompt":"a","response_format":{"type":"json_schema","json_schema":{"schema":{"not":{}}}}}
{"id":4,"prompt":"a","choices":[]}
{"id":5,"prompt":"a","choices":["x"],"regex":"y"}
{"id":6,"prompt":"a","grammar":7}
{"id":7,"prompt":"a","choices":["fine"]}
END
    run --separate-stderr zt-run -m model.gguf --raw --jsonl -i requests
    [ "$status" -eq 65 ]
    [[ ${lines[0]} == *'is not of the type'* ]]
    [[ ${lines[1]} == *'is missing'* ]]
    [[ ${lines[2]} == *'\"not\" is not supported'* ]]
    [[ ${lines[3]} == *'not an array of texts'* ]]
    [[ ${lines[4]} == *'exclude each other'* ]]
    [[ ${lines[5]} == *'not a text'* ]]
    [[ ${lines[6]} == *'"text":"fine"'* ]]
}

@test "SmolLM2: texts drawn hot by random schemas are valid by another validator" {
    python3 -c 'import jsonschema' || skip "no Python package jsonschema"
    model=$("$repo/scripts/model" smollm2) || skip "no model: scripts/model smollm2 failed"
    run -0 python3 "$repo/bench/schema-draws.py" "$model" 10 2
    [[ ${lines[-1]} == "10 schemas, 20 draws, "*" 0 not valid, "*" 0 refused" ]]
}
