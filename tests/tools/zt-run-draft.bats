#!/usr/bin/env bats
# zt-run --draft: the text of a run without it, whatever model drafts, with whatever else is asked for.

load ../common/helper

setup_file() {
    d=$BATS_FILE_TMPDIR
    "$tests/mkmodel" --arch llama --ctx 256 "$d/model.gguf"
    "$tests/mkmodel" --arch llama --ctx 256 --layers 1 "$d/small.gguf"
    "$tests/mkmodel" --arch llama --ctx 256 --seed 9 "$d/random.gguf"
    "$tests/mkmodel" --arch gemma3 --ctx 256 "$d/other.gguf"
    "$tests/mkmodel" --arch qwen3next --ctx 256 "$d/recurrent.gguf"
    "$tests/mkmodel" --arch bert "$d/encoder.gguf"
    zt-convert -q --to hf "$d/model.gguf" "$d/permuted"
    # The same tokens in another order: ids of ordinary tokens go round by one.
    perl -MJSON::PP -0777 -i -pe '
        my $j = decode_json($_);
        my $vocab = $j->{model}{vocab};
        my %added = map { $_->{id} => 1 } @{$j->{added_tokens}};
        my @ids = sort { $a <=> $b } grep { !$added{$_} } values %$vocab;
        my %next = map { $ids[$_] => $ids[($_ + 1) % @ids] } 0 .. $#ids;
        $vocab->{$_} = $next{$vocab->{$_}} // $vocab->{$_} for keys %$vocab;
        $_ = encode_json($j)' "$d/permuted/tokenizer.json"
}

setup() {
    cd "$BATS_FILE_TMPDIR" || return
    server=
}

teardown() {
    [ -z "$server" ] || kill -9 "$server" 2>/dev/null || true
}

words='the cat sat on the mat and the dog sat on the cat and the cat sat on the'

# What must not differ, line by line: tokens, text, why it ended, log probabilities.
answer() {
    zt-run -m "${model:-model.gguf}" --raw -p "$words" --json "$@" |
        perl -MJSON::PP -e 'local $/; my $j = decode_json(<STDIN>);
            print JSON::PP->new->canonical->utf8->encode([map { $j->{$_} } qw(ids text stop logprobs)]), "\n"'
}

@test "the same answer by every way of sampling and with every draft model" {
    n=0
    while read -r options; do
        # shellcheck disable=SC2086
        answer -n 40 --ignore-eos $options >alone
        for draft in model small random other recurrent permuted; do
            [ -d "$draft" ] || draft=$draft.gguf
            # shellcheck disable=SC2086
            answer -n 40 --ignore-eos $options --draft "$draft" --draft-tokens $((1 + n % 15)) >ahead
            cmp alone ahead
            n=$((n + 1))
        done
    done <<'END'
--temp 0
--temp 0 --exact
--temp 0 --logprobs 3 --repeat-penalty 1.3
--temp 0.3 --top-k 0 --seed 4 -t 1
--temp 0.8 --min-p 0.3 --chunk 3 --speculate
END
    [ $n -eq 30 ]
    answer -n 60 >alone
    answer -n 60 --draft small.gguf >ahead # adaptive
    cmp alone ahead
}

@test "recurrent layers, the other tokenizer and each instruction set as the target" {
    for model in recurrent.gguf other.gguf; do
        answer -n 30 --temp 0.5 --seed 2 --ignore-eos >alone
        for draft in model.gguf "$model"; do
            answer -n 30 --temp 0.5 --seed 2 --ignore-eos --draft "$draft" --draft-tokens 4 >ahead
            cmp alone ahead
        done
    done
    model=model.gguf
    answer -n 30 --temp 0 >alone
    for t in 1 2 3 4; do
        answer -n 30 --temp 0 -t $t --draft small.gguf --draft-tokens 3 >ahead
        cmp alone ahead
    done
    for isa in scalar avx2; do
        answer -n 30 --temp 0 --isa $isa --draft small.gguf --draft-tokens 7 >ahead
        cmp alone ahead
    done
}

@test "a model drafts for itself: all tokens are accepted, also in another order and sampled" {
    for options in '--temp 0' '--temp 0.7 --seed 3'; do
        # shellcheck disable=SC2086
        zt-run -m model.gguf --raw -p "$words" -n 41 --ignore-eos $options --json --draft model.gguf --draft-tokens 7 >json
        json '$j->{accepted} >= 34 && $j->{drafted} - $j->{accepted} <= 7 && $j->{batches} <= 7' <json
    done
    zt-run -m model.gguf --raw -p "$words" -n 41 --ignore-eos --temp 0 --json --draft random.gguf --draft-tokens 7 >json
    json '$j->{drafted} > 100 && $j->{accepted} < $j->{drafted} / 4' <json
}

@test "stop strings, ends, structured output, sessions and receipts are those without a draft" {
    zt-run -m model.gguf --raw -p "$words" -n 60 --temp 0 --ignore-eos >text
    stop=$(tail -c 9 text | head -c 4)
    for ends in '-n 1' '-n 2' '-n 17' '-n 60 -c 60' "-n 60 --stop=$stop" '-n 60 --eos 1,2,3,4,5,6,7,8,9' '-n 30 --regex [a-z]{20,40}'; do
        # shellcheck disable=SC2086
        answer --temp 0 $ends >alone
        # shellcheck disable=SC2086
        answer --temp 0 $ends --draft small.gguf --draft-tokens 5 >ahead
        echo "$ends"
        cmp alone ahead
    done
    for s in '' d; do
        zt-run -m model.gguf --raw -p "$words" -n 50 --temp 0 --ignore-eos --session "s$s" ${s:+--draft small.gguf --draft-tokens 3} >"text$s"
        zt-run -m model.gguf --raw -p "$words $(cat "text$s")" -n 9 --ignore-eos --session "s$s" ${s:+--draft model.gguf} >"more$s"
        zt-run -m model.gguf --raw -p "$words" -n 20 --receipt "r$s" --force ${s:+--draft small.gguf --draft-tokens 3} >"receipt$s"
    done
    cmp s sd
    cmp text textd
    cmp more mored
    cmp r rd
    zt-run -m model.gguf --verify rd >/dev/null
}

# Answers of --jsonl without what a draft changes: times and counts of drafts.
answers() {
    perl -MJSON::PP -ne 'my $j = decode_json($_); delete @$j{qw(drafted accepted batches load_s prompt_s generate_s)};
        print JSON::PP->new->canonical->utf8->encode($j), "\n"'
}

@test "--jsonl: requests together and one after the other, greedy, sampled and structured, with --kv-store" {
    cat >requests <<END
{"id":1,"prompt":"$words","n":40,"temp":0,"ignore_eos":true}
{"id":2,"prompt":"$words and","n":60,"temp":0.5,"seed":3,"ignore_eos":true}
{"id":3,"prompt":"the dog","n":90,"temp":0,"repeat_penalty":1.2,"ignore_eos":true,"logprobs":2}
{"id":4,"prompt":"the cat","n":30,"regex":"[a-z]{20,40}"}
{"id":5,"prompt":"$words","n":45,"temp":0,"stop":["z"]}
END
    for model in model recurrent; do
        zt-run -m $model.gguf --raw --jsonl <requests | answers >alone
        for draft in small recurrent other; do
            zt-run -m $model.gguf --raw --jsonl --draft $draft.gguf --draft-tokens 5 <requests | answers | cmp alone
            zt-run -m $model.gguf --raw --jsonl --chunk 3 --draft $draft.gguf <requests | answers | cmp alone
            while read -r line; do # a line is read when those before it are answered
                zt-run -m $model.gguf --raw --jsonl --kv-store kv.$model --draft $draft.gguf --draft-tokens 7 <<<"$line"
            done <requests | answers | cmp alone
        done
    done
    zt-run -m model.gguf --raw --jsonl --draft model.gguf --draft-tokens 7 -v < <(sed -n 1p requests) 2>err >json
    json '$j->{accepted} == 34 && $j->{drafted} == 34 && $j->{batches} == 5' <json
    grep -q '34 tokens drafted, 34 accepted' err
}

@test "--serve: the answers of a server without a draft" {
    command -v curl >/dev/null || skip "no curl"
    for draft in '' '--draft small.gguf --draft-tokens 4'; do
        # shellcheck disable=SC2086
        zt-run -v -m model.gguf --serve unix:s $draft 2>err 3>&- &
        server=$!
        for _ in {1..600}; do curl -sf --unix-socket s http://localhost/health >/dev/null && break; kill -0 $server || skip "no server here"; sleep .1; done
        for n in 3 30; do
            for temperature in 0 0.7; do
                curl -sf --unix-socket s http://localhost/v1/completions -H 'Content-Type: application/json' \
                    -d "{\"model\":\"model\",\"prompt\":\"$words\",\"max_tokens\":$n,\"temperature\":$temperature,\"seed\":5,\"n\":2}"
                curl -sNf --unix-socket s http://localhost/v1/completions -H 'Content-Type: application/json' \
                    -d "{\"model\":\"model\",\"prompt\":\"$words\",\"max_tokens\":$n,\"temperature\":$temperature,\"seed\":5,\"stream\":true}"
            done
        done | perl -MJSON::PP -ne 's/^data: //; next unless /^\{/; my $j = decode_json($_);
            push @order, $j->{id} unless $seen{$j->{id}}++; # a draft gives a stream longer pieces
            $text{$j->{id}}[$_->{index}] .= $_->{text} . ($_->{finish_reason} // "") for @{$j->{choices}};
            END { print JSON::PP->new->utf8->encode($text{$_}), "\n" for @order }' >"answers${draft:+.draft}"
        kill -TERM $server
        wait $server || true
    done
    [ "$(wc -l <answers)" -eq 8 ]
    cmp answers answers.draft
}

@test "--stats and --dry-run count the draft; a file that cannot draft is refused by its name" {
    run --separate-stderr zt-run -m model.gguf --raw -p "$words" -n 40 --ignore-eos --draft model.gguf --draft-tokens 2 --stats
    [ "$status" -eq 0 ]
    [[ $stderr =~ speculation\ +([0-9]+)\ tokens\ +drafted\ \(([0-9]+)\ accepted,\ ([0-9]+)\ batches ]]
    zt-run -m model.gguf --dry-run --format tsv >without
    zt-run -m model.gguf --dry-run --format tsv --draft small.gguf >with
    perl -F'\t' -ane '$n{$ARGV}{$F[0]} = $F[1]; END { exit !($n{with}{draft} > 0
        && $n{with}{total} == $n{with}{draft} + $n{without}{total}) }' without with
    echo not a model >text
    while read -r code options; do
        # shellcheck disable=SC2086
        run --separate-stderr zt-run -m model.gguf --raw -p hi -n 4 $options
        echo "$options: $status $stderr"
        [ "$status" -eq "$code" ]
        one_message zt-run
    done <<'END'
66 --draft missing.gguf
65 --draft text
69 --draft encoder.gguf
64 --draft small.gguf --draft-tokens 0
64 --draft small.gguf --draft-tokens 16
64 --draft-tokens 3
64 --draft small.gguf --no-kv-cache
END
}
