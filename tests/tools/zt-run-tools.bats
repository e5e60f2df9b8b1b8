#!/usr/bin/env bats
# zt-run: answers to conversations in parts: content, reasoning and tool calls. The text of an answer is forced by "choices".

load ../common/helper

setup_file() {
    make_models
    export template="$BATS_FILE_TMPDIR/tools.jinja"
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

@test "members about tools and reasoning that cannot be obeyed are refused" {
    for more in '{tool_choice: "required"}' '{parallel_tool_calls: false}' '{reasoning_effort: 1}'; do
        run answer x "$tools + $more"
        [ "$(jq -r .status <<<"${lines[0]}")" = 65 ]
        [[ ${lines[0]} == *"$(jq -nr "$more | keys[0]")"* ]]
    done
    run answer x '{reasoning_effort: "high"}'
    [ "$status" -eq 0 ]
}

@test "logprobs false with top_logprobs 0 overrides --logprobs; an integer too large is named" {
    run zt-run -m model.gguf --jsonl --logprobs 1 <<<'{"prompt": "a", "n": 1, "logprobs": false, "top_logprobs": 0}'
    [ "$status" -eq 0 ]
    [ "$(jq -c .logprobs <<<"$output")" = null ]
    run zt-run -m model.gguf --jsonl <<<'{"prompt": "a", "seed": 18446744073709551615}'
    [ "$status" -eq 65 ]
    [[ ${lines[0]} == *'\"seed\" is out of range'* ]]
}
