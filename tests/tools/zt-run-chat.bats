#!/usr/bin/env bats
# zt-run on a terminal: --chat, and what a terminal must not get. Skipped without python3, whose pty
# gives tests a terminal.

load ../common/helper

setup_file() {
    make_models
}

setup() {
    command -v python3 >/dev/null || skip "no python3 to make a terminal"
    cd "$BATS_TEST_TMPDIR" || exit
    ln -sf "$tiny" model.gguf
    at="$BATS_TEST_DIRNAME/on-terminal"
}

# Lines "EXPECT<tab>SEND" are standard input.
chat() {
    "$at" zt-run -m model.gguf --chat --temp 0 "$@" | tr -d '\r'
}

@test "--chat needs a terminal, and goes with little else" {
    run --separate-stderr bash -c 'zt-run -m model.gguf --chat </dev/null'
    [ "$status" -eq 64 ]
    one_message zt-run
    [[ $stderr == *terminal* ]]
    for args in '-p hi' '-i x' '--json' '--ids' '--raw' '--stats' '--logits x.npy' '-o x' '--perplexity x' '--tokenize'; do
        run "$at" zt-run -m model.gguf --chat $args </dev/null
        echo "$args: $status $output"
        [ "$status" -eq 64 ]
        [[ $output == *exclude* || $output == *"does not apply to --chat"* ]]
    done
    perl -0pe 's/tokenizer.chat_template/tokenizer.chat_tomplate/' model.gguf >none.gguf
    run "$at" zt-run -m none.gguf --chat </dev/null
    [ "$status" -eq 64 ]
    [[ $output == *--template* ]]
}

@test "a turn answers as the whole conversation would, and feeds only its segment" {
    first=$(zt-run -m model.gguf -p hello --temp 0 -n 4 --system S)
    # the answer's text comes back as the tokens that were generated
    [ "$(zt-run -m model.gguf --tokenize -p "$first")" = "$(zt-run -m model.gguf -p hello --temp 0 -n 4 --system S --ids)" ]
    whole=$'<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n'$first
    whole+=$'<|im_end|>\n<|im_start|>user\non the<|im_end|>\n<|im_start|>assistant\n'
    second=$(zt-run -m model.gguf --raw --special -p "$whole" --temp 0 -n 4)
    n=$(zt-run -m model.gguf --count --special -p "$whole")
    chat -n 4 --system S -vv >shown <<'END'
> 	hello\n
> 	on the\n
> 	/quit\n
END
    grep -qxF -- "$first" shown
    grep -qxF -- "$second" shown
    # the last token of an answer is not in the cache yet: it is fed with the turn
    known=$(($(zt-run -m model.gguf --count --special -p "${whole%%<|im_end|>$'\n'<|im_start|>user$'\n'on*}") - 1))
    grep -q "prompt: $n tokens, $known in the cache" shown
}

@test "a template that changes what was said is asked each turn" {
    zt-convert -q -f --set 'tokenizer.chat_template=str:{% for m in messages %}{{ m.role + ":" + (m.content|upper if m.role == "assistant" else m.content) + ";" }}{% endfor %}{{ messages|length }}' model.gguf shouts.gguf
    first=$(zt-run -m shouts.gguf -p hello --temp 0 -n 4)
    whole="user:hello;assistant:$(tr a-z A-Z <<<"$first");user:on the;3"
    "$at" zt-run -m shouts.gguf --chat --temp 0 -n 4 -vv >shown <<'END'
> 	hello\n
> 	on the\n
> 	/quit\n
END
    [ "$first" != "$(tr a-z A-Z <<<"$first")" ]
    grep -q "prompt: $(zt-run -m model.gguf --count -p "$whole") tokens" shown
}

@test "/reset forgets, Ctrl-D ends, an unknown command is told" {
    chat -n 6 -vv >shown <<'END'
> 	hello\n
> 	/reset\n
> 	hello\n
> 	/nonsense\n
> 	/help\n
clear the conversation\r\n> 	\x04
END
    [ "$(grep -c 'prompt: ' shown)" -eq 2 ]
    [ "$(grep 'prompt: ' shown | sed 's/,.*//' | sort -u | wc -l)" -eq 1 ]
    [ "$(grep -A1 'prompt: ' shown | grep -v -e prompt: -e -- | sort -u | wc -l)" -le 1 ]
    grep -q "unknown command '/nonsense'" shown
    grep -q '^/reset' shown
}

@test "Ctrl-C stops the answer and not the conversation" {
    word=$(zt-run -m model.gguf -p hello --temp 0 -n 6 | tr -d '\n' | head -c 3)
    printf '> \thello\\n\n%s\t\\x03\n> \t/help\\n\nclear\t\\x03\n> \t/quit\\n\n' "$word" >script
    chat -c 200000 --ignore-eos <script >shown
    grep -q '^/help' shown
}

@test "a full context is told, and the conversation can begin anew" {
    chat -c 40 -n 3 >shown <<'END'
> 	hello on the she\n
> 	hello on the she in the hello on the she in the hello hello\n
> 	/reset\n
> 	hello\n
> 	/quit\n
END
    grep -q 'zt-run: the conversation of [0-9]* tokens exceeds the context of 40: clear it with /reset' shown
    chat -c 16 --ignore-eos >shown <<'END'
> 	hello\n
> 	/quit\n
END
    grep -q 'the context of 16: clear it with /reset' shown
}

@test "--session keeps a conversation" {
    chat -n 4 -vv >both <<'END'
> 	hello\n
> 	on the\n
> 	/quit\n
END
    printf '> \thello\\n\n> \t/quit\\n\n' | chat -n 4 --session s >one
    printf '> \ton the\\n\n> \t/quit\\n\n' | chat -n 4 --session s -vv >two
    grep -q 'the conversation continues' two
    answer() { sed -n '/prompt: /{n;p}' "$1" | tail -1; }
    [ -n "$(answer both)" ]
    [ "$(answer both)" = "$(answer two)" ]
    [ "$(grep 'prompt: ' both | tail -1 | sed 's/,.*//')" = "$(grep 'prompt: ' two | sed 's/,.*//')" ]
}

@test "what the user does not see of an answer is not in the conversation" {
    answer=$(zt-run -m model.gguf -p hello --temp 0 -n 12 --ignore-eos)
    stop=${answer:3:2}
    head=${answer%%"$stop"*}
    whole=$'<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n'$head
    whole+=$'<|im_end|>\n<|im_start|>user\non the<|im_end|>\n<|im_start|>assistant\n'
    chat -n 12 --ignore-eos --stop "$stop" -vv >shown <<'END'
> 	hello\n
> 	on the\n
> 	/quit\n
END
    grep -q "prompt: $(zt-run -m model.gguf --count --special -p "$whole") tokens" shown
}

# ---- escapes -----------------------------------------------------------------------------------------

# Any control character but those that a line of text has.
controls() {
    LC_ALL=C grep -qaP '[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]' "$1"
}

@test "generated text is escaped for a terminal, and bytes for a pipe" {
    hot() { zt-run -m model.gguf --raw -p hello -n 150 --temp 100 --top-k 0 --top-p 1 --min-p 0 --ignore-eos; }
    export -f hot
    hot >piped
    controls piped
    "$at" bash -c hot </dev/null >shown
    run ! controls shown
    grep -q '\\x[01][0-9a-f]' shown
    printf 'a\x1b[31mb\xc2\x9bc\n' >text
    zt-run -m model.gguf --tokenize --verbatim -i text >ids
    zt-run -m model.gguf --detokenize -i ids | cmp - text
    "$at" zt-run -m model.gguf --detokenize -i ids </dev/null | tr -d '\r' >shown
    [ "$(cat shown)" = 'a\x1b[31mb\xc2\x9bc' ]
}

@test "a terminal escape in the model's names reaches no terminal" {
    perl -0777pe 's/blk\.1\.ffn_up\.weight/blk.1.f\e[31m.weight/' model.gguf >name.gguf
    perl -0777pe 's/(general\.architecture.{12})llama/$1l\e[3m/s' model.gguf >arch.gguf
    perl -0777pe 's/% endfor %/% \e[3mor %/g' model.gguf >template.gguf
    for m in name arch template; do
        run cmp -s $m.gguf model.gguf
        [ "$status" -eq 1 ]
        run "$at" zt-run -m $m.gguf -p hi -n 1 </dev/null
        [ "$status" -ge 65 ]
        printf %s "$output" >shown
        run ! controls shown
        grep -q 'x1b' shown || [ $m = name ] # there another name is told: that which is missing
    done
}
