# shellcheck shell=bash
# same_text.bash - a model's text is the same however it is made. MODEL: a file of mkmodel with a context of 256 tokens.

# In pieces, by any number of threads, with a draft, without a cache, by a plan, and by its forward pass as text.
same_text_each_way() { # MODEL
    local model=$1 option
    greedy() { zt-run -m "$model" -p 'the cat the cat the cat sat' -n 48 --temp 0 "$@"; }
    greedy >whole
    [ -s whole ]
    for option in '--chunk 1' '--chunk 7' '--threads 1' '--threads 3' --speculate --no-kv-cache; do
        # shellcheck disable=SC2086
        greedy $option | cmp - whole
    done
    zt-trace record -m "$model" | zt-trace compile --bind n=1,m=1,ctx=256 >plan
    greedy --plan plan | cmp - whole
    zt-trace record -m "$model" --forward >forward.zt
    greedy --program forward.zt | cmp - whole
}

# By a session that ends at a word of the prompt, and by one that ends in the text.
same_text_from_session() { # MODEL
    local model=$1 begin
    zt-run -m "$model" -p 'the cat sat on the mat' -n 12 --temp 0 >whole
    for begin in t 'the cat' 'the cat sat on' 'the cat sat on the mat'; do
        rm -f s
        zt-run -m "$model" -p "$begin" -n 0 --session s
        zt-run -m "$model" -p 'the cat sat on the mat' -n 12 --temp 0 --session s | cmp - whole
    done
    rm -f s
    zt-run -m "$model" -p 'the cat sat on the mat' -n 5 --temp 0 --session s >first
    zt-run -m "$model" -p 'the cat sat on the mat' -n 12 --temp 0 --session s | cmp - whole
}

# Of 33 texts in one batch those of the LINEs, against each alone.
same_text_beside_32() { # MODEL LINE...
    local model=$1 line
    perl -e 'printf qq({"prompt": "%s", "n": %d, "temp": 0}\n), join(" ", ("the", "cat", "sat", "on")[map { ($_ * 3 + $_) % 4 } 0 .. $_ % 9]), 4 + $_ % 5 for 0 .. 32' >requests
    zt-run -m "$model" --jsonl -i requests >beside
    [ "$(wc -l <beside)" = 33 ]
    for line in "${@:2}"; do
        sed -n "${line}p" requests | zt-run -m "$model" --jsonl | perl -MJSON::PP -ne 'print decode_json($_)->{text}' >alone
        sed -n "${line}p" beside | perl -MJSON::PP -ne 'print decode_json($_)->{text}' | cmp - alone
    done
}
