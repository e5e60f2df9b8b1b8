#!/usr/bin/env bats
# zt-run: templates by name and file, sessions, log probabilities, perplexity, no cache, terminals.

load ../common/helper

setup_file() {
    make_models
}

greedy() {
    zt-run --raw --temp 0 "$@"
}

# ---- misuse ------------------------------------------------------------------------------------------

@test "misuse is one line and 64" {
    while IFS='|' read -r word args; do
        run --separate-stderr bash -c "zt-run -m model.gguf $args </dev/null"
        echo "zt-run $args: $status $stderr"
        [ "$status" -eq 64 ]
        one_message zt-run
        [[ $stderr == *"$word"* ]]
        [ -z "$output" ]
    done <<'END'
nor one of chatml, gemma, llama3.1, |-p hi --template alpaca
exclude|-p hi --raw --template chatml
exclude|-p hi --raw --system x
exclude|-p hi --session s --no-kv-cache
--session|-p hi --session -
is not a regular file|-p hi --session /dev/full
is not a regular file|-p hi --session .
--stop: empty string|-p hi --stop x --stop ''
'--bind' does not apply to text generation|-p hi --bind n=1
'--data' does not apply to text generation|-p hi --data x.npz
needs '--json' or '--jsonl'|-p hi --logprobs 3
'--prompt' does not apply to --perplexity|-p hi --perplexity README
exclude|--tokenize --perplexity README
'--json' does not apply to --tokenize|--tokenize -p hi --json
'--session' does not apply to --count; it applies to text generation or --chat|--count -p hi --session s
'--no-kv-cache' does not apply to --perplexity|--perplexity README --no-kv-cache
name the same file|-p hi --session s -o s
--logprobs|-p hi --json --logprobs 1001
END
    [ ! -e s ]
}

# ---- templates ---------------------------------------------------------------------------------------

@test "--template takes a name or a file" {
    zt-run -m "$tiny_spm" --template chatml --no-bos -p hi -n 0 --logits a.npy
    zt-run -m "$tiny_spm" --raw --special --no-bos -n 0 --logits b.npy \
        -p $'<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n'
    cmp a.npy b.npy
    cat >t.json <<'END'
{"name": "x", "role_prefixes": {"system": "S:", "user": "\nU:", "assistant": "\nA:"},
 "role_suffixes": {"user": ";"}, "global_prefix": "<|im_start|>", "global_suffix": "!"}
END
    zt-run -m model.gguf --template t.json --system sys -p hi -n 0 --logits c.npy
    zt-run -m model.gguf --raw --special -n 0 --logits d.npy -p $'<|im_start|>S:sys\nU:hi;\nA:!'
    cmp c.npy d.npy
    echo '{"name": 1}' >bad.json
    run --separate-stderr zt-run -m model.gguf --template bad.json -p hi
    [ "$status" -eq 65 ]
    one_message zt-run
    run --separate-stderr zt-run -m model.gguf --template none.json -p hi
    [ "$status" -eq 66 ]
}

# with_template JINJA [OPTION...]: model.gguf with another template of its own
with_template() {
    zt-convert -q -f --set "tokenizer.chat_template=str:$1" "${@:2}" model.gguf other.gguf
}

@test "the model's own template runs, whatever it is" {
    with_template $'{%- for m in messages[-1:] -%}\n  [{{ m.role|upper }}] {{ m.content.split(",")[0]|trim }}\n{% endfor %}'
    [ "$(zt-run -m other.gguf -p ' a, b' --render)" = '[USER] a' ]
    zt-run -m other.gguf -p ' a, b' -n 0 --logits a.npy
    zt-run -m other.gguf --raw -n 0 --logits b.npy -p $'[USER] a\n'
    cmp a.npy b.npy
    # special tokens that a template puts together are tokens, in a message they are words
    with_template "{% for m in messages %}{{ '<|im_' + m.role + '|>' + m.content }}{% endfor %}"
    count() { zt-run -m other.gguf --jsonl "$@" | perl -MJSON::PP -ne 'print decode_json($_)->{prompt_tokens}'; }
    [ "$(count <<<'{"n": 0, "messages": [{"role": "start", "content": "1"}]}')" -eq 2 ]
    [ "$(count <<<'{"n": 0, "messages": [{"role": "start", "content": "<|im_end|>"}]}')" -gt 5 ]
    [ "$(count --special <<<'{"n": 0, "messages": [{"role": "start", "content": "<|im_end|>"}]}')" -eq 2 ]
    [ "$(count <<<'{"n": 0, "messages": [{"role": "x|><|im_start", "content": "1"}]}')" -gt 5 ]
    # BOS comes once
    with_template '{{ bos_token }}{{ messages[0].content }}'
    [ "$(zt-run -m other.gguf -p 1 --bos -n 0 --json | perl -ne '/"prompt_tokens":(\d+)/ && print $1')" -eq 2 ]
    with_template '{{ strftime_now("%Y-%m-%d") }} {{ messages[0].content }}'
    [ "$(SOURCE_DATE_EPOCH=86400 zt-run -m other.gguf -p 1 --render)" = '1970-01-02 1' ]
}

@test "a template that cannot be run is 65 with its line, and --raw runs" {
    while IFS='&' read -r template code says; do
        with_template "${template//N/$'\n'}"
        run --separate-stderr zt-run -m other.gguf -p hi -n 1
        echo "$template: $status $stderr"
        [ "$status" -eq "$code" ]
        one_message zt-run
        [[ $stderr == *"other.gguf: chat template: line $says"* ]]
        zt-run -m other.gguf -p hi -n 1 --raw
        zt-run -m other.gguf -p hi -n 1 --template chatml
    done <<'END'
{% for m in messages %}&65&1: the template ends where 'endfor' is missing
aN{{ messages[0].nothing.more }}&65&2: 'dict object' has no attribute 'nothing'
{% for m in messages %}N{{ m.content + 1 }}{% endfor %}&65&2: unsupported operand
{{ raise_exception('only ' ~ messages|length) }}&69&1: the template refuses: only 1
{{ messages|nosuch }}&65&1: no filter named 'nosuch'
{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}&65&1: the template takes too many steps
END
}

@test "--template takes a variant of the model's or a Jinja file, --template-arg its variables" {
    with_template "{{ messages[0].content }}{% if deep %}!{% endif %}" --set "tokenizer.chat_template.loud=str:{{ messages[0].content|upper }}"
    [ "$(zt-run -m other.gguf -p hi --render)" = hi ]
    [ "$(zt-run -m other.gguf -p hi --render --template loud)" = HI ]
    [ "$(zt-run -m other.gguf -p hi --render --template-arg deep=true)" = 'hi!' ]
    echo '({{ messages[0].content }}{{ x.a }})' >own.jinja
    [ "$(zt-run -m model.gguf -p hi --render --template own.jinja --template-arg 'x={"a": "é"}')" = '(hié)' ]
    while IFS='|' read -r arg says; do
        run --separate-stderr zt-run -m other.gguf -p hi --render --template-arg "$arg"
        [ "$status" -eq 64 ]
        one_message zt-run
        [[ $stderr == *"$says"* ]]
    done <<'END'
deeep=true|does not use the variable 'deeep'
deep|KEY=JSON
deep=yes|not JSON
messages=[]|messages come from the prompt
END
    run -64 zt-run -m other.gguf -p hi --render --template-arg deep=1 --template-arg deep=2
    run -64 zt-run -m other.gguf -p hi --render --template chatml --template-arg deep=1
    echo '{% nonsense %}' >own.jinja
    run -65 zt-run -m model.gguf -p hi --render --template own.jinja
}

# variants FILE: the names and texts of the chat templates in it
variants() {
    zt-convert --meta "$1" | grep '^tokenizer.chat_template' | cut -f 1,3
}

@test "the template's variants become a directory's and come back; files there come first" {
    with_template D --set tokenizer.chat_template.loud=str:L --set tokenizer.chat_template.rag=str:R
    zt-convert -q other.gguf hf --to hf
    zt-convert -q hf back.gguf
    run -0 variants back.gguf
    [[ $output == *$'tokenizer.chat_template\tD'* ]]
    [[ $output == *$'tokenizer.chat_template.loud\tL'* && $output == *$'tokenizer.chat_template.rag\tR'* ]]
    run -64 zt-run -m other.gguf -p hi --render --template quiet
    [[ $output == *"the model's own loud, rag"* ]]
    mkdir hf/additional_chat_templates
    echo A >hf/additional_chat_templates/tool-use.jinja
    echo B >hf/additional_chat_templates/tool_use.jinja
    run -0 zt-convert hf -f back.gguf
    [[ $output == *"chat template 'tool_use' is left out"* ]]
    run -0 variants back.gguf
    [[ $output == *$'tokenizer.chat_template\tD'* && $output == *$'tokenizer.chat_template.tool_use\tA'* ]]
    [[ $output != *loud* ]]
    echo J >hf/chat_template.jinja
    [ "$(zt-run -m hf -p hi --render)" = J ]
    [ "$(zt-run -m hf -p hi --render --template tool_use)" = A ]
}

@test "--jsonl: tools, documents, arguments and what messages hold go to the template" {
    with_template '{{ tools|tojson }}{{ documents[0].text if documents }}{{ deep }}{% for m in messages %}{{ m|tojson }}{% endfor %}' \
        --set 'tokenizer.chat_template.tool_use=str:T{{ tools[0].name }}{% for m in messages %}{{ m.content }}{{ m.tool_calls }}{% endfor %}'
    cat >cases <<'END'
{"messages": [{"role": "user", "content": "a"}]}|null{"role": "user", "content": "a"}
{"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "name": null}]}|null{"role": "user", "content": "a\nb"}
{"documents": [{"text": "D"}], "chat_template_kwargs": {"deep": 5}, "messages": [{"role": "x", "content": "é"}]}|nullD5{"role": "x", "content": "é"}
{"messages": [{"role": "assistant", "content": "a", "reasoning": "r"}]}|null{"role": "assistant", "content": "a", "reasoning": "r", "reasoning_content": "r", "thinking": "r"}
{"tools": [{"name": "f"}], "messages": [{"role": "assistant", "tool_calls": [{"id": "1"}]}]}|Tf[{'id': '1'}]
{"tools": [{"name": "f"}], "messages": [{"role": "user", "content": "a"}]}|Tfa
END
    while IFS='|' read -r request text; do
        n=$(zt-run -m other.gguf --jsonl -n 0 <<<"$request" | perl -MJSON::PP -ne 'print decode_json($_)->{prompt_tokens}')
        echo "$request: $n"
        [ "$n" -eq "$(zt-run -m other.gguf --count -p "$(printf %b "${text//\\n/\\\\n}")")" ]
    done <cases
    cat >cases <<'END'
{"tools": [{"name": "f"}], "messages": [{"role": "user", "content": "a"}]}|does not support tools
{"documents": [{}], "messages": [{"role": "user", "content": "a"}]}|does not support documents
{"chat_template_kwargs": {"x": 1}, "messages": [{"role": "user", "content": "a"}]}|does not use the variable 'x'
{"messages": [{"role": "assistant", "tool_calls": [{}]}]}|does not support tool_calls
{"tools": [1], "messages": [{"role": "user", "content": "a"}]}|an array of objects
{"tools": [{}], "prompt": "a"}|need "messages"
END
    cut -d'|' -f1 cases >requests
    run -65 --separate-stderr zt-run -m model.gguf --jsonl -i requests
    local i=0
    while IFS='|' read -r _ text; do
        [[ ${lines[i]} == *"${text//\"/\\\"}"* ]]
        i=$((i + 1))
    done <cases
}

# A conversation of a system message alone does not hold what opens a user's turn: what is generated then
# is the same whatever that is.
@test "an answer ends where the model opens a user's turn" {
    answer() { # what opens a user's turn, options
        perl -MJSON::PP -e 'print encode_json({role_prefixes => {system => "", user => $ARGV[0], assistant => ""}})' "$1" >t.json
        echo '{"messages": [{"role": "system", "content": "hello"}]}' |
            zt-run -m model.gguf --jsonl --template t.json --temp 0 -n 30 "${@:2}"
    }
    text() { perl -CO -MJSON::PP -0ne 'print decode_json($_)->{text}'; }
    answer '@@@' --ignore-eos | text >whole
    turn=$(tr -cd 'a-z' <whole | head -c 2)
    [ ${#turn} -eq 2 ]
    grep -qF -- "$turn" whole
    # blanks around it do not count
    answer " $turn"$'\n' >got
    json '$j->{stop} eq "turn"' <got
    perl -e 'local $/; open F, "whole"; $w = <F>; $g = <STDIN>;
             exit !($g eq substr($w, 0, index($w, $ARGV[0])))' "$turn" < <(text <got)
    answer "$turn" --ignore-eos | json '$j->{stop} eq "length"'
    answer "$turn" --stop "$turn" | json '$j->{stop} eq "stop"'
}

# ---- the cache ---------------------------------------------------------------------------------------

@test "--no-kv-cache gives the same ids" {
    for m in "$tiny" "$tiny_spm"; do
        zt-run -m "$m" --raw -p 'hello on the' -n 12 --ids --temp 1.5 --ignore-eos >a
        zt-run -m "$m" --raw -p 'hello on the' -n 12 --ids --temp 1.5 --ignore-eos --no-kv-cache >b
        cmp a b
    done
}

@test "a session gives the text and logits of a run without, and feeds only the rest" {
    for m in "$tiny" "$tiny_spm"; do
        rm -f s
        greedy -m "$m" -p 'hello on the' -n 20 --ids --ignore-eos >a
        greedy -m "$m" -p 'hello on the' -n 20 --ids --ignore-eos --session s >b
        cmp a b
        [ -s s ]
        cp s s1
        greedy -m "$m" -p 'hello on the' -n 20 --ids --ignore-eos --session s >c
        cmp a c
        greedy -m "$m" -p 'hello on the she' -n 20 -f --logits d.npy
        run --separate-stderr greedy -m "$m" -p 'hello on the she' -n 20 -f --logits e.npy --session s --stats
        cmp d.npy e.npy
        [[ $stderr == *'session '* ]]
        greedy -m "$m" -p 'another text' -n 20 --ids --session s >f
        greedy -m "$m" -p 'another text' -n 20 --ids >g
        cmp f g
        # a smaller context takes what fits
        greedy -m "$m" -p 'hello on the' -n 2 --ids --ignore-eos --session s1 -c 16 >h
        [ "$(cut -d' ' -f1-2 a)" = "$(cat h)" ]
    done
}

@test "a session goes on where the answer ended" {
    greedy -m model.gguf -p 'hello on the' -n 6 --session s >one
    greedy -m model.gguf -p "hello on the$(cat one; printf x)" -n 0 --logits a.npy --session s
    greedy -m model.gguf -p "hello on the$(cat one; printf x)" -n 0 --logits b.npy
    cmp a.npy b.npy
}

@test "another model's session is 65, other arithmetic's is not used" {
    "$tests/mkmodel" --layers 3 --ctx 256 other.gguf
    greedy -m model.gguf -p hello -n 4 --session s
    cp s keep
    run --separate-stderr greedy -m other.gguf -p hello -n 4 --session s
    [ "$status" -eq 65 ]
    one_message zt-run
    [[ $stderr == *"another model"* ]]
    cmp s keep
    run --separate-stderr greedy -m model.gguf -p hello -n 4 --session s --exact --ids
    [ "$status" -eq 0 ]
    [[ $stderr == *"session ignored"* ]]
    [ "$output" = "$(greedy -m model.gguf -p hello -n 4 --exact --ids)" ]
    cp keep s
    run --separate-stderr greedy -m model.gguf -p hello -n 4 --session s --kv f32 --ids
    [ "$status" -eq 0 ]
    [[ $stderr == *"session ignored"* ]]
    [ "$output" = "$(greedy -m model.gguf -p hello -n 4 --kv f32 --ids)" ]
}

@test "a damaged session is 65, and stays as it was" {
    greedy -m model.gguf -p hello -n 4 --session s
    size=$(stat -c %s s)
    for cut in 0 1 50 100 127 128 140 $((size / 2)) $((size - 1)); do
        head -c "$cut" s >t
        cp t u
        run --separate-stderr greedy -m model.gguf -p hello -n 4 --session t
        [ "$status" -eq 65 ] || { echo "$cut bytes: $status $stderr"; false; }
        one_message zt-run
        cmp t u
    done
    for at in 3 10 45 104 106 112 119 120 125 130 200 $((size - 2)); do
        perl -e 'local $/; open F, "<:raw", "s"; $s = <F>; substr($s, $ARGV[0], 1) ^= "\x41";
                 open G, ">:raw", "t"; print G $s' "$at"
        run --separate-stderr greedy -m model.gguf -p hello -n 4 --session t
        # the arithmetic's name may be anything: then the file is not used
        [ "$status" -eq 65 ] || [[ $status -eq 0 && $stderr == *"session ignored"* ]] || { echo "byte $at: $status $stderr"; false; }
    done
}

# ---- probabilities -----------------------------------------------------------------------------------

@test "--logprobs are those of the logits" {
    greedy -m model.gguf -p hello -n 3 --json --logprobs 5 --ignore-eos >json
    json '@{$j->{logprobs}} == 3 && $j->{logprobs}[0]{id} == $j->{ids}[0] && @{$j->{logprobs}[0]{top}} == 5
          && $j->{logprobs}[1]{top}[0]{id} == $j->{ids}[1]
          && $j->{logprobs}[1]{logprob} == $j->{logprobs}[1]{top}[0]{logprob}
          && $j->{logprobs}[2]{top}[0]{logprob} >= $j->{logprobs}[2]{top}[1]{logprob}
          && join("", map { $_->{text} } @{$j->{logprobs}}) eq $j->{text}' <json
    greedy -m model.gguf -p hello -n 0 --logits l.npy
    perl -MJSON::PP -e 'local $/; open F, "<:raw", "l.npy"; @x = unpack "f<*", substr(<F>, 128);
        open J, "json"; $j = decode_json(<J>); $sum += exp($_) for @x;
        $want = $x[$j->{ids}[0]] - log $sum; exit !(abs($want - $j->{logprobs}[0]{logprob}) < 1e-5)'
    greedy -m model.gguf -p hello -n 3 --json --logprobs 0 | json '@{$j->{logprobs}[0]{top}} == 0'
    greedy -m model.gguf -p hello -n 3 --json | json '!exists $j->{logprobs}'
    # before sampling: the same whatever the temperature
    zt-run -m model.gguf --raw -p hello -n 1 --json --logprobs 2 --temp 2 --ignore-eos |
        json "\$j->{logprobs}[0]{top}[0]{logprob} == $(perl -MJSON::PP -0ne 'print decode_json($_)->{logprobs}[0]{top}[0]{logprob}' json)"
}

@test "--perplexity is that of the logits" {
    for i in 1 2 3 4 5 6 7 8 9; do printf 'hello on the she in there %d ' $i; done >text
    zt-run -m model.gguf --perplexity text -c 20 --exact --format json >json
    n=$(zt-run -m model.gguf --count -i text)
    json '$j->{schema} eq "zt.perplexity/1" && $j->{rows}[0]{window} == 20 && $j->{rows}[0]{error} > 0
          && $j->{rows}[0]{windows} == int('"$n"' / 20)
          && $j->{rows}[0]{tokens} == 9 * $j->{rows}[0]{windows}' <json
    # the same from the logits of the first window
    ids=($(zt-run -m model.gguf --tokenize -i text))
    zt-run -m model.gguf --detokenize -p "${ids[*]:0:20}" >window
    [ "$(zt-run -m model.gguf --tokenize -i window)" = "${ids[*]:0:20}" ]
    zt-run -m model.gguf --raw -i window -n 0 --exact --logits all.npy --all-logits
    zt-run -m model.gguf --perplexity window -c 20 --exact --format json |
        json '$j->{rows}[0]{tokens} == 9 && do { local $/; open F, "<:raw", "all.npy"; my @x = unpack "f<*", substr(<F>, 128);
            my @id = qw('"${ids[*]:0:20}"'); my $nll = 0;
            for my $i (10 .. 18) { my $sum = 0; $sum += exp $x[300 * $i + $_] for 0 .. 299;
                                   $nll += log($sum) - $x[300 * $i + $id[$i + 1]] }
            abs(exp($nll / 9) / $j->{rows}[0]{perplexity} - 1) < 1e-5 }'
    # BOS opens each window of a model that wants it
    zt-run -m "$tiny_spm" --perplexity text -c 20 >a
    zt-run -m "$tiny_spm" --perplexity text -c 20 --no-bos >b
    run ! cmp -s a b
    run --separate-stderr zt-run -m model.gguf --perplexity text -c 200
    [ "$status" -eq 65 ]
    one_message zt-run
    zt-run -m model.gguf --perplexity - -c 20 --exact --format json <text | cmp - json
    zt-run -m model.gguf --perplexity text -c 20 --exact --format json -o out
    cmp out json
}

@test "-o takes the table of --dry-run too" {
    zt-run -m model.gguf --dry-run --format tsv -o out
    [[ $(head -1 out) == *bytes* ]]
    run --separate-stderr zt-run -m model.gguf --dry-run -o out
    [ "$status" -eq 73 ]
}

# ---- the end of a prompt -----------------------------------------------------------------------------

@test "a prompt from a pipe or a file loses one newline at its end, and --verbatim keeps it" {
    local text how
    for text in 'hello on' $'hello\n\n' $'\r\nhello\r\n'; do
        for how in '--raw -n 4 --temp 0' '-n 4 --temp 0 --json' --tokenize '--count --special' '--embed --format json' \
            '--raw -n 0 --logits -'; do
            # shellcheck disable=SC2086
            one() { zt-run -m model.gguf $how "$@" | sed 's/"[a-z]*_s":[0-9.]*,//g'; }
            one -p "$text" >want
            printf '%s\n' "$text" | one | cmp - want
            printf '%s\r\n' "$text" | one -i - | cmp - want
            printf '%s' "$text" | one --verbatim | cmp - want
            printf '%s\n' "$text" >file
            one -i file | cmp - want
            one -p "$text"$'\n' >whole
            one -i file --verbatim | cmp - whole
            [ "$how" != --tokenize ] || ! cmp -s want whole
        done
    done
    # nothing but a newline is no prompt, though it is a text of tokens
    run --separate-stderr zt-run -m model.gguf -n 1 <<<''
    [ "$status" -eq 64 ] && [ "$stderr" = 'zt-run: the prompt is empty' ]
    zt-run -m model.gguf --raw -n 1 --verbatim <<<'' >out
    # lines stay lines
    [ "$(printf 'hello\n\n' | zt-run -m model.gguf --embed --format ndjson | wc -l)" -eq 2 ]
    cmp <(printf 'hello\non\n' | zt-run -m model.gguf --embed --format ndjson) \
        <(printf 'hello\r\non\r\n' | zt-run -m model.gguf --embed --format ndjson)
    all_refused zt-run -m model.gguf --verbatim <<'END'
64|--verbatim|-p hi
64|--verbatim|--detokenize
64|--verbatim|--perplexity README
64|--verbatim|--jsonl
64|--verbatim|--chat
64|--verbatim|--dry-run
END
}

# ---- many requests -----------------------------------------------------------------------------------

# The request's answer without what only tells times.
answers() {
    perl -MJSON::PP -ne 'my $j = decode_json($_); delete @$j{qw(load_s prompt_s generate_s id line ctx)};
                         $j->{error} =~ s/^line \d+: // if $j->{error};
                         print JSON::PP->new->canonical->encode($j), "\n"'
}

@test "--jsonl answers as runs by themselves, in order" {
    cat >requests <<'END'
{"id": 1, "prompt": "hello", "n": 6, "temp": 0}
{"id": "two", "prompt": "hello on", "n": 6, "seed": 5, "temp": 2, "top-k": 0, "top_p": 1, "min-p": 0}

{"id": {"x": null}, "messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "hello"}], "n": 6, "temp": 0}
{"prompt": "hello on the", "raw": true, "n": 6, "temp": 0, "ignore_eos": true, "logprobs": 2}
{"prompt": "hello", "system": "S", "n": 40, "temp": 0, "stop": ["a", "zz"], "repeat_penalty": 1.5, "repeat_last": -1}
END
    zt-run -m model.gguf --jsonl -i requests >got
    [ "$(perl -MJSON::PP -ne 'print JSON::PP->new->canonical->allow_nonref->encode(decode_json($_)->{id}), " "' got)" = \
        '1 "two" {"x":null} null null ' ]
    {
        zt-run -m model.gguf -p hello -n 6 --temp 0 --json
        zt-run -m model.gguf -p 'hello on' -n 6 --seed 5 --temp 2 --top-k 0 --top-p 1 --min-p 0 --json
        zt-run -m model.gguf -p hello --system S -n 6 --temp 0 --json
        zt-run -m model.gguf -p 'hello on the' --raw -n 6 --temp 0 --ignore-eos --logprobs 2 --json
        zt-run -m model.gguf -p hello --system S -n 40 --temp 0 --stop a --stop zz --repeat-penalty 1.5 --repeat-last -1 --json
    } >want
    diff <(answers <want) <(answers <got)
    # from stdin, with options of the command line where the request has none
    grep -v messages requests | sed 's/"n": 6, //; s/"temp": 0, //; s/, "temp": 0//' |
        zt-run -m model.gguf --jsonl -n 6 --temp 0 -o out
    [ "$(wc -l <out)" -eq 4 ]
    diff <(head -1 want | answers) <(head -1 out | answers)
}

@test "--jsonl: many together answer as each alone, whatever the chunk and the memory" {
    for i in $(seq 12); do
        echo "{\"id\": $i, \"prompt\": \"hello on the$(printf ' on%.0s' $(seq $((i * 3 % 40))))\", \"n\": $((i * 5 % 13 + (i > 10 ? 90 : 0))), \"temp\": $((i % 3)), \"seed\": $i, \"ignore_eos\": true, \"logprobs\": $((i % 2))}"
        ((i % 5)) || echo '{"prompt": 7}'
    done >requests
    while read -r line; do
        echo "$line" | zt-run -m model.gguf --jsonl 2>/dev/null || true
    done <requests | answers >want
    [ "$(grep -c error want)" -eq 2 ]
    for how in '' '--chunk 3 -t 1' '--ctx 192 --chunk 20 -t 3' '--no-kv-cache'; do
        # shellcheck disable=SC2086
        zt-run -m model.gguf --jsonl -i requests $how >got || [ $? -eq 65 ]
        [ "$(perl -MJSON::PP -ne 'print decode_json($_)->{id} // "-", " "' got)" = \
            '1 2 3 4 5 - 6 7 8 9 10 - 11 12 ' ]
        cmp want <(answers <got)
    done
}

@test "--jsonl answers a request before the next one comes" {
    mkfifo in
    zt-run -m model.gguf --jsonl <in >out &
    pid=$!
    exec 5>in
    echo '{"prompt": "hello", "n": 2}' >&5
    for _ in {1..1200}; do [ -s out ] && break; sleep 0.1; done
    [ "$(wc -l <out)" -eq 1 ]
    printf '{"prompt": "hello", "n": 2}' >&5
    exec 5>&-
    wait $pid
    [ "$(wc -l <out)" -eq 2 ]
}

@test "requests come from a file, not from a directory" {
    run --separate-stderr bash -c "zt-run -m model.gguf --jsonl -i ."
    [ "$status" -eq 66 ] && [ "$stderr" = 'zt-run: .: is a directory' ] && [ -z "$output" ]
    run --separate-stderr zt-run -m model.gguf --jsonl -i <(echo '{')
    [ "$status" -eq 65 ] && [ "$stderr" = 'zt-run: 1 request failed' ]
}

@test "a bad request is answered by an error, and the next one by an answer" {
    cat >requests <<'END'
{"id": 1}
{"id": 2, "prompt": "x", "messages": []}
{"id": 3, "prompt": 5}
{"id": 4, "prompt": "hello", "temp": "hot"}
{"id": 5, "prompt": "hello", "temp": -1}
{"id": 6, "prompt": "hello", "n": -5}
{"id": 7, "messages": [{"role": 5, "content": ""}]}
{"id": 8, "messages": []}
{"id": 9, "messages": [{"role": "user"}]}
{"id": 10, "prompt": "hello", "colour": 1}
{"id": 11, "prompt": ""}
{"id": 12, "id": 13}
[1]
nonsense
END
    printf '{"id": 15, "prompt": "%s"}\n' "$(printf 'hello %.0s' $(seq 300))" >>requests
    echo '{"id": 16, "prompt": "hello", "n": 2}' >>requests
    run --separate-stderr zt-run -m model.gguf --jsonl -i requests
    echo "$output"
    [ "$status" -eq 65 ]
    one_message zt-run
    [[ $stderr == *"15 requests"* ]]
    [ "${#lines[@]}" -eq 16 ]
    for ((i = 0; i < 15; i++)); do
        json '$j->{error} && $j->{status} >= 64 && !exists $j->{text}' <<<"${lines[i]}"
    done
    json '$j->{id} == 16 && $j->{generated_tokens} == 2 && !exists $j->{error}' <<<"${lines[15]}"
    run --separate-stderr zt-run -m model.gguf --jsonl -i none
    [ "$status" -eq 66 ]
    one_message zt-run
    run --separate-stderr zt-run -m model.gguf --jsonl -p hi
    [ "$status" -eq 64 ]
}

@test "--jsonl: a prompt alone is fed, and its times are those of the run" {
    cat >requests <<'END'
{"id": 1, "prompt": "hello on the she", "n": 0}
{"id": 2, "prompt": "hello on the she", "n": 1}
{"id": 3, "prompt": "hello", "n": null, "max_tokens": 0}
END
    zt-run -m model.gguf --jsonl -i requests >got
    while read -r line; do
        json '$j->{generate_s} < 1 && $j->{prompt_s} > 0 && $j->{prompt_s} < 60 && $j->{stop} eq "length"' <<<"$line"
    done <got
    sed -n 1p got | json '$j->{text} eq "" && $j->{generated_tokens} == 0 && !@{$j->{ids}}'
    sed -n 3p got | json '$j->{generated_tokens} == 0 && $j->{n} == 0'
    diff <(zt-run -m model.gguf -p 'hello on the she' -n 0 --json | answers) <(sed -n 1p got | answers)
}

@test "--jsonl: a member that is null is as one that is absent" {
    for name in n logprobs temp top_k top_p min_p repeat_penalty repeat_last seed stop system raw special \
        ignore_eos max_tokens temperature frequency_penalty presence_penalty top_logprobs stream messages \
        id model response_format user none_such; do
        echo "{\"prompt\": \"hello\", \"$name\": null}"
    done >requests
    zt-run -m model.gguf --jsonl -i requests -n 3 --seed 3 --stop zz | answers | sort -u >got
    [ "$(wc -l <got)" -eq 1 ]
    diff got <(zt-run -m model.gguf -p hello -n 3 --seed 3 --stop zz --json | answers)
    echo '{"prompt": null, "messages": [{"role": "user", "content": "hello", "name": null}]}' |
        zt-run -m model.gguf --jsonl -n 3 --seed 3 --stop zz | answers | diff - got
}

@test "--jsonl: OpenAI's names are ours, and content may be a list of parts" {
    cat >requests <<'END'
{"prompt": "hello", "max_tokens": 5, "temperature": 1.5, "top_p": 0.9, "frequency_penalty": 0.75, "presence_penalty": 0.5, "seed": 4, "stop": ["zz"], "stream": false, "logit_bias": {}, "response_format": {"type": "text"}, "model": "model"}
{"prompt": "hello", "max_completion_tokens": 5, "n": 5, "temperature": 0, "temp": 0, "logprobs": true, "top_logprobs": 2}
{"prompt": "hello", "n": 2, "temp": 0, "logprobs": true, "model": "model.gguf"}
{"prompt": "hello", "n": 2, "temp": 0, "logprobs": false}
{"messages": [{"role": "user", "content": [{"type": "text", "text": "hello"}]}], "n": 5, "temp": 0}
{"messages": [{"role": "user", "content": [{"type": "text", "text": "hello"}, {"type": "text", "text": "on"}]}], "n": 5, "temp": 0}
END
    zt-run -m model.gguf --jsonl -i requests >got
    {
        zt-run -m model.gguf -p hello -n 5 --temp 1.5 --top-p 0.9 --frequency-penalty 0.75 --presence-penalty 0.5 --seed 4 --stop zz --json
        zt-run -m model.gguf -p hello -n 5 --temp 0 --logprobs 2 --json
        zt-run -m model.gguf -p hello -n 2 --temp 0 --logprobs 0 --json
        zt-run -m model.gguf -p hello -n 2 --temp 0 --json
        zt-run -m model.gguf -p hello -n 5 --temp 0 --json
        zt-run -m model.gguf -p $'hello\non' -n 5 --temp 0 --json
    } >want
    diff <(answers <want) <(answers <got)
}

@test "--jsonl: what is wrong with a request is said by name, with the input's line" {
    cat >cases <<'END'
{"prompt": "x", "max_tokens": 3, "n": 4}|"max_tokens": 3 and "n": 4
{"prompt": "x", "top-k": 3, "top_k": 4}|conflicting values: "top_k": 3 and "top_k": 4
{"prompt": "x", "n": 2147483648}|"n": 2147483648 is not an integer from 0 to 2147483647
{"prompt": "x", "n": 1.5}|"n": 1.5 is not an integer
{"prompt": "x", "seed": -1}|"seed": -1 is not
{"prompt": "x", "temp": "hot"}|"temp": "hot" is not a number
{"prompt": "x", "temperature": -1}|temperature is -1
{"prompt": "x", "raw": 1}|"raw": 1 is not true or false
{"prompt": "x", "logprobs": 1001}|"logprobs": 1001 is not
{"prompt": "x", "top_logprobs": 2}|"top_logprobs" needs "logprobs": true
{"prompt": "x", "logprobs": 3, "top_logprobs": 2}|"top_logprobs" needs
{"prompt": "x", "stop": ["a", ""]}|array of non-empty strings
{"prompt": "x", "stop": ["a", null]}|array of non-empty strings
{"prompt": "x", "stream": true}|"stream": true is not supported: only false
{"prompt": "x", "logit_bias": {"5": 1}}|"logit_bias": {"5":1} is not supported
{"prompt": "x", "response_format": {"type": "xml"}}|"response_format"
{"prompt": "x", "user": "u"}|"user": "u" is not supported
{"prompt": "x", "model": "other"}|"other" is not the loaded model, "model.gguf"
{"prompt": "x", "temprature": 1}|unknown member "temprature" (did you mean "temperature"?)
{"prompt": "x", "colour": 1}|unknown member "colour": expected id, prompt
{"messages": [{"role": "user", "content": "x"}, 5]}|messages[1]: 
{"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": "x"}]}]}|messages[0]: "type": "image_url" is not "text"
{"messages": [{"role": "user", "content": [{"type": "text", "text": 5}]}]}|"text": 5 is not a string
{"messages": [{"role": "user", "content": []}]}|"content": [] is not
{"messages": [{"role": "user", "content": null}]}|"content": null is not
{"messages": [{"role": "user", "content": "x", "tool_calls": [{}]}]}|does not support tool_calls
{"messages": [{"role": "user", "contents": "x"}]}|did you mean "content"
{"system": "S", "messages": [{"role": "system", "content": "T"}, {"role": "user", "content": "x"}]}|both "system" and a message
{"system": "S", "raw": true, "prompt": "x"}|"raw" disables it
{"prompt": "x"|column
END
    cut -d'|' -f1 cases | sed 's/^/\n/' >requests # each behind an empty line
    run -65 --separate-stderr zt-run -m model.gguf --jsonl -i requests
    [ "${#lines[@]}" -eq 30 ]
    local i=0 want
    while IFS='|' read -r _ want; do
        echo "${lines[i]} $want"
        json '$j->{line} == 2 * ('$i' + 1) && $j->{error} =~ /^line $j->{line}: / && $j->{status} >= 64
              && index($j->{error}, q('"$want"')) >= 0' <<<"${lines[i]}"
        i=$((i + 1))
    done <cases
    # ids and lines of other modes too
    run --separate-stderr zt-run -m model.gguf --detokenize <<<$'43 44\n\n45 x'
    [ "$status" -eq 65 ] && [[ $stderr == *"line 3: 'x' is not a token id"* ]]
    run --separate-stderr zt-run -m model.gguf --embed --format ndjson <<<$'a\n'"$(seq 400)"$'\nb'
    [ "$status" -eq 0 ]
    run --separate-stderr zt-run -m model.gguf --embed --format ndjson <<<$'a\n'"$(seq 400 | tr '\n' ' ')"
    [ "$status" -ne 0 ] && [[ $stderr == *"line 2: "* ]] && one_message zt-run
}

@test "--json and --jsonl say what the tokens were drawn by" {
    zt-run -m model.gguf -p hello --json --stop zz --stop yy -n 3 --temp 0.7 --top-k 7 --top-p 0.9 --min-p 0.1 \
        --repeat-penalty 1.1 --repeat-last -1 --frequency-penalty 0.3 --presence-penalty -0.2 --seed 18446744073709551615 \
        --eos 2,3 -c 99 | grep -F '"temp":0.7,"top_k":7,"top_p":0.9,"min_p":0.1,"repeat_penalty":1.1,"repeat_last":-1,"frequency_penalty":0.3,"presence_penalty":-0.2,"seed":18446744073709551615,"n":3,"stop_texts":["zz","yy"],"eos":[2,3],"ignore_eos":false,"ctx":99,'
    zt-run -m model.gguf -p hello --json --ignore-eos |
        grep -F '"temp":0.8,"top_k":40,"top_p":0.95,"min_p":0.05,"repeat_penalty":1,"repeat_last":64,"frequency_penalty":0,"presence_penalty":0,"seed":0,"n":null,"stop_texts":[],"eos":null,"ignore_eos":true,"ctx":256,'
    echo '{"prompt": "hello", "n": 2, "temperature": 0.25, "presence_penalty": 1}' | zt-run -m model.gguf --jsonl --seed 3 |
        grep -F '"temp":0.25,"top_k":40,"top_p":0.95,"min_p":0.05,"repeat_penalty":1,"repeat_last":64,"frequency_penalty":0,"presence_penalty":1,"seed":3,"n":2,"stop_texts":[],"eos":null,"ignore_eos":false,"ctx":256,'
}

@test "penalties of frequency and presence take effect, and off they change nothing" {
    greedy -m model.gguf -p hello -n 24 --ids --ignore-eos >plain
    greedy -m model.gguf -p hello -n 24 --ids --ignore-eos --frequency-penalty 0 --presence-penalty 0 | cmp - plain
    greedy -m model.gguf -p hello -n 24 --ids --ignore-eos --frequency-penalty 5 >frequency
    greedy -m model.gguf -p hello -n 24 --ids --ignore-eos --presence-penalty 1000 --repeat-last -1 >presence
    ! cmp -s plain frequency
    # 1000 once: no token comes twice
    [ "$(tr ' ' '\n' <presence | sort -u | wc -l)" -eq 24 ]
    greedy -m model.gguf -p hello -n 24 --ids --ignore-eos --presence-penalty 1000 --repeat-last -1 --speculate | cmp - presence
    greedy -m model.gguf -p hello -n 24 --ids --ignore-eos --presence-penalty 1000 --repeat-last 0 | cmp - plain
    run --separate-stderr zt-run -m model.gguf -p hello --frequency-penalty inf
    [ "$status" -eq 64 ] && one_message zt-run
}

# ---- embeddings --------------------------------------------------------------------------------------

@test "--embed writes one vector, or one for each line" {
    zt-run -m model.gguf --embed -p 'hello on' >a.npy
    head -c 128 a.npy | grep -aq "'<f4', 'fortran_order': False, 'shape': (64,), }"
    [ "$(stat -c %s a.npy)" -eq $((128 + 256)) ]
    zt-run -m model.gguf --embed -p 'hello on' -o b.npy
    cmp a.npy b.npy
    printf 'hello on\n\nthe she\nhello on' >text
    zt-run -m model.gguf --embed -i text --format ndjson >lines
    [ "$(wc -l <lines)" -eq 4 ]
    [ "$(sed -n 1p lines | sed 's/"index":0//')" = "$(sed -n 4p lines | sed 's/"index":3//')" ]
    sed -n 2p lines | json '$j->{tokens} == 0 && !defined $j->{embedding}'
    sed -n 3p lines | json '$j->{index} == 2 && @{$j->{embedding}} == 64'
    sed -n 1p lines | json 'do { local $/; open F, "<:raw", "a.npy"; my @x = unpack "f<*", substr(<F>, 128);
                                 my $e = 0; $e += abs($x[$_] - $j->{embedding}[$_]) for 0 .. 63; $e < 1e-6 }'
    zt-run -m model.gguf --embed -p 'hello on' --format json | cmp - <(sed -n 1p lines)
    for args in '--json' '--session s' '--system x' '--format md' '--perplexity x' '--chat'; do
        run --separate-stderr zt-run -m model.gguf --embed -p x $args
        [ "$status" -eq 64 ]
        one_message zt-run
    done
    run --separate-stderr zt-run -m model.gguf --embed -p "$(printf 'hello %.0s' $(seq 300))"
    [ "$status" -eq 75 ]
    one_message zt-run
}
