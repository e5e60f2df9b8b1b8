#!/usr/bin/env bats
# zt-run: answers to conversations in parts: content, reasoning and tool calls. The text of an answer is forced by "choices".

load ../common/helper

setup_file() {
    make_models
    export long=$BATS_FILE_TMPDIR/long.gguf
    "$tests/mkmodel" --arch llama --ctx 2048 "$long"
    export template="$BATS_FILE_TMPDIR/tools.jinja" calling="$BATS_FILE_TMPDIR/calling.jinja"
    echo '{% for m in messages %}{{ m.role }}: {{ m.content }} {% endfor %}{% if tools %}{{ tools|length }}{% endif %} as <tool_call>{..}</tool_call>:' >"$calling"
    cat >"$template" <<'END'
{% if tools %}tools: {{ tools|tojson }} as <tool_call>{..}</tool_call>
{% endif %}{% for m in messages %}{{ m.role }}: {{ m.content }}
{% endfor %}{{ reasoning_effort }}assistant:{% if enable_thinking %}<think>
{% endif %}
END
}

setup() {
    command -v jq >/dev/null || skip "no jq"
    cd "$BATS_TEST_TMPDIR" || exit
    ln -sf "$tiny" model.gguf
}

# The answer to a conversation whose text is $1; $2: more members of the request.
answer() {
    jq -nc --arg text "$1" "{messages: [{role: \"user\", content: \"a\"}], choices: [\$text], n: 200} + ${2-{\}}" |
        zt-run -m model.gguf --template "$template" --jsonl
}

tools='{tools: [{type: "function", function: {name: "now", parameters: {type: "object"}}}]}'

@test "a tool call comes back with its name and its arguments" {
    run answer 'Look. <tool_call>{"name": "now", "arguments": {"zone": [1, "Z"]}}</tool_call>' "$tools"
    [ "$status" -eq 0 ]
    [ "$(jq -c '[.content, .tool_calls, .tool_call_error]' <<<"$output")" = '["Look.",[{"name":"now","arguments":{"zone":[1,"Z"]}}],null]' ]
    [ "$(jq -r .text <<<"$output")" = 'Look. <tool_call>{"name": "now", "arguments": {"zone": [1, "Z"]}}</tool_call>' ]
}

@test "text that is not a call of a tool stays in the content, with the reason" {
    run answer '<tool_call>{"name": "rm"}</tool_call>' "$tools"
    [ "$(jq -c '[.content, .tool_calls]' <<<"$output")" = '["<tool_call>{\"name\": \"rm\"}</tool_call>",[]]' ]
    [[ $(jq -r .tool_call_error <<<"$output") == *"'rm' is not one of the tools"* ]]
}

@test "without tools, or with tool_choice none, nothing is a call" {
    text='<tool_call>{"name": "now"}</tool_call>'
    run answer "$text"
    [ "$(jq -c '[.content, .tool_calls]' <<<"$output")" = "$(jq -nc --arg t "$text" '[$t, null]')" ]
    run answer "$text" "$tools + {tool_choice: \"none\"}"
    [ "$(jq -c '[.content, .tool_calls]' <<<"$output")" = "$(jq -nc --arg t "$text" '[$t, null]')" ]
}

@test "reasoning is split off, also where the prompt opens it" {
    run answer $'<think>\nhm\n</think>\n\nYes' '{}'
    [ "$(jq -c '[.content, .reasoning_content]' <<<"$output")" = '["Yes","hm"]' ]
    run answer $'hm\n</think>\n\nYes' '{chat_template_kwargs: {enable_thinking: true}}'
    [ "$(jq -c '[.content, .reasoning_content]' <<<"$output")" = '["Yes","hm"]' ]
}

@test "--json has the parts, and tools by --template-arg" {
    run zt-run -m model.gguf --template "$template" -p a --json --template-arg 'tools=[{"name": "now"}]' --choices '<tool_call>{"name": "now"}</tool_call>'
    [ "$status" -eq 0 ]
    [ "$(jq -c '[.content, .tool_calls]' <<<"$output")" = '["",[{"name":"now","arguments":{}}]]' ]
}

@test "members about tools and reasoning that cannot be obeyed are refused by name" {
    while IFS='|' read -r more what; do
        run answer x "$tools + $more"
        [ "$(jq -r .status <<<"${lines[0]}")" = 65 ]
        [[ $(jq -r .error <<<"${lines[0]}") == *"$what"* ]]
    done <<'END'
{reasoning_effort: 1}|"reasoning_effort"
{parallel_tool_calls: "no"}|"parallel_tool_calls"
{tool_choice: "required"}|"tool_choice" asks for a call, but the answer is held to "choices"
{tool_choice: "must"}|"tool_choice": "must" is not "none"
{tool_choice: {type: "custom"}}|"tool_choice"
{tool_choice: {type: "function", function: {name: "rm"}}}|"tool_choice": 'rm' is not one of the tools
{tools: [], tool_choice: "required"}|there are no "tools"
{tools: [{type: "custom", custom: {name: "x"}}]}|tools[0]: "type": "custom" is not "function"
{tools: [{type: "function", function: {name: "x", strict: 1}}]}|tools[0]: "strict": 1 is not true or false
END
    run answer x '{reasoning_effort: "high"}'
    [ "$status" -eq 0 ]
}

# ---- calls that are held to a schema -----------------------------------------------------------------

data='{type: "object", required: ["city", "days"], additionalProperties: false, properties: {
  city: {type: "string", maxLength: 6}, days: {type: "integer", minimum: 1, maximum: 7}, unit: {enum: ["C", "F"]}}}'

# Draws $1 answers to a conversation with two tools; $2: more members of the requests.
draw() { # count members [options...]
    ln -sf "$long" model.gguf
    for ((seed = 0; seed < $1; seed++)); do
        jq -nc --argjson seed $seed "{messages: [{role: \"user\", content: \"a\"}], n: 600, temp: 1.5, seed: \$seed,
            tools: [{type: \"function\", function: {name: \"weather\", parameters: $data}}, {name: \"now\"}]} + $2"
    done | zt-run -m model.gguf --template "$calling" --jsonl "${@:3}"
}

valid='all(.tool_calls[]; (.name == "now" and .arguments == {}) or (.name == "weather" and (.arguments | (keys - ["city", "days", "unit"]) == []
    and (.city | type == "string" and length <= 6) and (.days | . >= 1 and . <= 7 and floor == .) and ([.unit] - [null, "C", "F"]) == [])))'

@test "tool_choice required: every answer calls, and all arguments are valid" {
    draw 12 '{tool_choice: "required"}' >answers
    jq -se "length == 12 and all(.[]; (.tool_calls | length) > 0 and $valid)" answers
    draw 6 '{tool_choice: {type: "function", function: {name: "weather"}}, parallel_tool_calls: false}' >answers
    jq -se "length == 6 and all(.[]; (.tool_calls | length) == 1 and .tool_calls[0].name == \"weather\" and $valid)" answers
    draw 3 '{tool_choice: {type: "allowed_tools", allowed_tools: {mode: "required", tools: [{type: "function", function: {name: "now"}}]}}}' >answers
    jq -se 'all(.[]; .tool_calls[0] == {name: "now", arguments: {}})' answers
}

@test "the same calls for any batch, chunk and draft, and by --json" {
    draw 4 '{tool_choice: "required"}' | jq -c .ids >want
    draw 4 '{tool_choice: "required"}' --chunk 3 -t 1 | jq -c .ids >got
    cmp want got
    for seed in 0 1; do
        jq -nc "[{type: \"function\", function: {name: \"weather\", parameters: $data}}]" >tools.json
        set -- zt-run -m model.gguf --template "$calling" -p a --json -n 40 --temp 1 --seed $seed --template-arg "tools=$(cat tools.json)"
        "$@" | jq -c .ids >want
        "$@" --speculate | jq -c .ids >got
        cmp want got
        "$@" --no-kv-cache --chunk 1 | jq -c .ids >got
        cmp want got
        jq -nc --slurpfile tools tools.json --argjson seed $seed '{messages: [{role: "user", content: "a"}], tools: $tools[0], n: 40, temp: 1, seed: $seed}' |
            zt-run -m model.gguf --template "$calling" --jsonl | jq -c .ids >got
        cmp want got
    done
}

@test "tools whose schema or name is not supported are refused by name" {
    while IFS='|' read -r tool what; do
        run answer x "{choices: null, tools: [$tool]}"
        [ "$(jq -r .status <<<"${lines[0]}")" = 65 ]
        [[ $(jq -r .error <<<"${lines[0]}") == *"$what"* ]]
    done <<'END'
{name: "f", parameters: {type: "object", properties: {a: {"not": {}}}}}|tools: f: parameters: #/properties/a: "not" is not supported
{name: "f", parameters: {type: "string"}}|tools: f: parameters: #: not a schema of objects
{name: "a b"}|tools: 'a b' is not a name
{name: "f"}, {name: "f"}|two tools are called 'f'
END
}

@test "response_format with tools: the answer is valid, or calls" {
    format='{type: "json_schema", json_schema: {name: "x", schema: {type: "object", properties: {a: {type: "integer"}}, required: ["a"], additionalProperties: false}}}'
    draw 6 "{response_format: $format}" >answers
    jq -se 'all(.[]; .complete | not) or any(.[]; .complete)' answers
    jq -se 'all(.[] | select(.complete and (.tool_calls | length) == 0); (.content | fromjson | keys) == ["a"])' answers
}

# ZT_LONG: of SmolLM2, whose calls are longer; the made model has the same forms.
@test "tool calls of four forms, drawn hot, are valid by another validator" {
    python3 -c 'import jsonschema' || skip "no Python package jsonschema"
    local model=$long draws=4
    [ -z "${ZT_LONG-}" ] || { draws=1 && model=$("$repo/scripts/model" smollm2); } || skip "no model: scripts/model smollm2 failed"
    run -0 python3 "$repo/bench/tool-call-draws.py" "$model" "$draws" hermes qwen3-coder lfm2 harmony
    [[ ${lines[-1]} == [1-9]*" calls in "*", 0 refused, 0 wrong" ]]
}

@test "a prompt of token ids is used as it is given" {
    ids=$(zt-run -m model.gguf --tokenize --bos -p "hello on the")
    want=$(zt-run -m model.gguf --raw -p "hello on the" -n 8 --temp 0 --ids --bos)
    run zt-run -m model.gguf --jsonl <<<"{\"prompt\": [${ids// /, }], \"n\": 8, \"temp\": 0}"
    [ "$(jq -r '.ids | join(" ")' <<<"$output")" = "$want" ]
    run zt-run -m model.gguf --jsonl <<<'{"prompt": [1, 123456]}'
    [[ ${lines[0]} == *'\"prompt\": 123456 is not a token id from 0 to'* ]]
    run zt-run -m model.gguf --jsonl <<<'{"prompt": []}'
    [[ ${lines[0]} == *'a string or an array of token ids'* ]]
}

@test "logprobs false with top_logprobs 0 overrides --logprobs; an integer too large is named" {
    run zt-run -m model.gguf --jsonl --logprobs 1 <<<'{"prompt": "a", "n": 1, "logprobs": false, "top_logprobs": 0}'
    [ "$status" -eq 0 ]
    [ "$(jq -c .logprobs <<<"$output")" = null ]
    run zt-run -m model.gguf --jsonl <<<'{"prompt": "a", "seed": 18446744073709551615}'
    [ "$status" -eq 65 ]
    [[ ${lines[0]} == *'\"seed\" is out of range'* ]]
}
