#!/usr/bin/env bats
# zt-run --speculate: the text of a run without it, with whatever else is asked for.

load ../common/helper

setup_file() {
    make_models
}

words='the cat sat on the mat and the dog sat on the cat and the cat sat on the'

# What must not differ, line by line: tokens, text, why it ended, log probabilities.
answer() {
    zt-run -m "${model:-model.gguf}" --raw -p "$words" --json "$@" |
        perl -MJSON::PP -e 'local $/; my $j = decode_json(<STDIN>);
            print JSON::PP->new->canonical->utf8->encode([map { $j->{$_} } qw(ids text stop logprobs)]), "\n"'
}

@test "the same answer by every way of sampling, and tokens that were foreseen" {
    n=0
    while read -r options; do
        for m in "$tiny" "$tiny_spm"; do
            model=$m
            # shellcheck disable=SC2086
            answer -n 80 --ignore-eos $options >alone
            # shellcheck disable=SC2086
            answer -n 80 --ignore-eos $options --speculate >ahead
            cmp alone ahead
            n=$((n + 1))
        done
    done <<'END'
--temp 0
--temp 0 --exact
--temp 0 --repeat-penalty 1.3
--temp 0 --logprobs 3
--temp 0.05 --seed 3
--temp 0.3 --top-k 0 --seed 4
--temp 0.2 --top-p 0.5 --logprobs 2
--temp 0.4 --min-p 0.3 -t 1
--temp 0 -t 1 --chunk 3
--temp 0.1 --engine ref
END
    [ $n -eq 20 ]
    zt-run -m model.gguf --raw -p "$words" -n 200 --temp 0 --ignore-eos --json --speculate >json
    json '$j->{accepted} > 0 && $j->{accepted} <= $j->{drafted} && $j->{batches} > 0
          && $j->{drafted} >= 3 * $j->{batches}' <json
}

@test "a text ends where it ended" {
    answer -n 60 --temp 0 --ignore-eos >whole
    zt-run -m model.gguf --raw -p "$words" -n 60 --temp 0 --ignore-eos >text
    stop=$(tail -c 9 text | head -c 4)
    for ends in '-n 1' '-n 2' '-n 17' '-n 60 -c 60' "-n 60 --stop=$stop" '-n 60 --eos 1,2,3,4,5,6,7,8,9'; do
        # shellcheck disable=SC2086
        answer --temp 0 $ends >alone
        # shellcheck disable=SC2086
        answer --temp 0 $ends --speculate >ahead
        echo "$ends"
        cmp alone ahead
    done
    answer -c 64 --temp 0 --ignore-eos --speculate >ahead # until the context is full
    answer -c 64 --temp 0 --ignore-eos >alone
    cmp alone ahead
    grep -q '"ctx"' ahead
}

@test "a session holds the same cache" {
    for s in '' --speculate; do
        # shellcheck disable=SC2086
        zt-run -m model.gguf --raw -p "$words" -n 90 --temp 0 --ignore-eos --session "s$s" $s >"text$s"
        # shellcheck disable=SC2086
        zt-run -m model.gguf --raw -p "$words $(cat "text$s")" -n 9 --ignore-eos --session "s$s" $s >"more$s"
    done
    cmp s s--speculate
    cmp text text--speculate
    cmp more more--speculate
}

@test "--stats tells what came of it; without a cache there is nothing to speculate with" {
    run --separate-stderr zt-run -m model.gguf --raw -p "$words" -n 100 --temp 0 --ignore-eos --speculate --stats
    [ "$status" -eq 0 ]
    [[ $stderr =~ speculation\ +([0-9]+)\ tokens\ +drafted\ \(([0-9]+)\ accepted,\ ([0-9]+)\ batches ]]
    [ "${BASH_REMATCH[2]}" -le "${BASH_REMATCH[1]}" ]
    run --separate-stderr zt-run -m model.gguf --raw -p "$words" -n 5 --stats
    [[ $stderr != *speculation* ]]
    run --separate-stderr zt-run -m model.gguf -p hi --speculate --no-kv-cache
    [ "$status" -eq 64 ]
    one_message zt-run
    [[ $stderr == *exclude* ]]
    run --separate-stderr zt-run -m model.gguf --jsonl --speculate </dev/null
    [ "$status" -eq 64 ]
    [[ $stderr == *"does not apply to --jsonl"* ]]
}
