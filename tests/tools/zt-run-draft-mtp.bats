#!/usr/bin/env bats
# zt-run --draft mtp: the model's own head drafts. The text of a run without it, and a head that predicts what the model does has all its
# drafts accepted.

load ../common/helper

archs='qwen3next qwen35 qwen35moe glm4moe deepseek2 deepseek32'

setup_file() {
    cd "$BATS_FILE_TMPDIR" || exit
    for arch in $archs; do
        "$tests/mkmodel" --arch $arch --ctx 512 --untied --next 1 $arch.gguf
        "$tests/mkmodel" --arch $arch --ctx 512 --untied --next 1 --planted --type f32 $arch.planted.gguf
    done
    "$tests/mkmodel" --arch qwen35 --ctx 512 --untied --next 2 two.gguf
    "$tests/mkmodel" --arch qwen35 --ctx 512 none.gguf
    "$tests/mkmodel" --arch llama --ctx 512 --next 1 llama.gguf
}

setup() {
    cd "$BATS_FILE_TMPDIR" || return
    server=
}

teardown() {
    [ -z "$server" ] || kill -9 "$server" 2>/dev/null || true
}

words='the cat sat on the mat and the dog sat on the cat and the cat sat on the'

answer() { # MODEL OPTION...
    zt-run -m "$1.gguf" --raw -p "$words" --json "${@:2}" |
        perl -MJSON::PP -e 'local $/; my $j = decode_json(<STDIN>);
            print JSON::PP->new->canonical->utf8->encode([map { $j->{$_} } qw(ids text stop logprobs)]), "\n"'
}

@test "the same answer by every way of sampling, with drafts of any length" {
    for model in $archs qwen35.planted two; do
        while read -r options; do
            # shellcheck disable=SC2086
            answer $model -n 40 --ignore-eos $options >alone
            for drafts in '' '--draft-tokens 1' '--draft-tokens 4' '--draft-tokens 15'; do
                # shellcheck disable=SC2086
                answer $model -n 40 --ignore-eos $options --draft mtp $drafts >ahead
                cmp alone ahead
            done
        done <<'END'
--temp 0
--temp 0 --exact
--temp 0.7 --top-k 0 --seed 4 -t 1
--temp 0.8 --min-p 0.3 --chunk 3 --speculate --logprobs 2 --repeat-penalty 1.2
END
    done
}

@test "a planted head: all that is drafted is accepted, greedily and sampled" {
    for arch in $archs; do
        for options in '--temp 0' '--temp 0.7 --seed 3'; do
            # shellcheck disable=SC2086
            zt-run -m $arch.planted.gguf --raw -p "$words" -n 61 --ignore-eos $options --json --draft mtp --draft-tokens 4 >json
            json '$j->{accepted} >= 46 && $j->{drafted} - $j->{accepted} <= 2 && $j->{batches} <= 14' <json
        done
        # one that was not planted predicts no better than chance
        zt-run -m $arch.gguf --raw -p "$words" -n 61 --ignore-eos --temp 0 --json --draft mtp --draft-tokens 4 >json
        json '$j->{drafted} > 100 && $j->{accepted} < $j->{drafted} / 8' <json
    done
}

@test "stop strings, ends, structured output, sessions, the KV store, receipts and instruction sets are those without drafts" {
    for model in qwen35.planted deepseek2; do
        for ends in '-n 1' '-n 2' '-n 17' '-n 60 -c 60' '-n 60 --eos 1,2,3,4,5,6,7,8,9' '-n 30 --regex [a-z]{20,40}'; do
            # shellcheck disable=SC2086
            answer $model --temp 0 $ends >alone
            # shellcheck disable=SC2086
            answer $model --temp 0 $ends --draft mtp --draft-tokens 5 >ahead
            echo "$ends"
            cmp alone ahead
        done
        rm -rf s sd r rd kv
        for s in '' d; do
            draft=(${s:+--draft mtp --draft-tokens 3})
            zt-run -m $model.gguf --raw -p "$words" -n 50 --temp 0 --ignore-eos --session "s$s" "${draft[@]}" >"text$s"
            zt-run -m $model.gguf --raw -p "$words $(cat "text$s")" -n 9 --ignore-eos --session "s$s" "${draft[@]}" >"more$s"
            zt-run -m $model.gguf --raw -p "$words" -n 20 --receipt "r$s" --force "${draft[@]}" >"receipt$s"
        done
        cmp s sd
        cmp text textd
        cmp more mored
        cmp r rd
        zt-run -m $model.gguf --verify rd >/dev/null
        for _ in 1 2; do answer $model --temp 0 -n 30 --kv-store kv --draft mtp --draft-tokens 5 >ahead; done
        answer $model --temp 0 -n 30 --kv-store kv | cmp - ahead
        for isa in scalar avx2; do
            answer $model -n 30 --temp 0 --isa $isa >alone
            answer $model -n 30 --temp 0 --isa $isa --draft mtp --draft-tokens 7 | cmp - alone
        done
    done
}

# Answers of --jsonl without what a draft changes: times and counts of drafts.
answers() {
    perl -MJSON::PP -ne 'my $j = decode_json($_); delete @$j{qw(drafted accepted batches load_s prompt_s generate_s)};
        print JSON::PP->new->canonical->utf8->encode($j), "\n"'
}

@test "--jsonl: requests together and one after the other" {
    cat >requests <<END
{"id":1,"prompt":"$words","n":40,"temp":0,"ignore_eos":true}
{"id":2,"prompt":"$words and","n":60,"temp":0.5,"seed":3,"ignore_eos":true}
{"id":3,"prompt":"the dog","n":90,"temp":0,"repeat_penalty":1.2,"ignore_eos":true,"logprobs":2}
{"id":4,"prompt":"the cat","n":30,"regex":"[a-z]{20,40}"}
{"id":5,"prompt":"$words","n":45,"temp":0,"stop":["z"]}
END
    for model in qwen35 qwen35.planted glm4moe.planted deepseek2; do
        zt-run -m $model.gguf --raw --jsonl <requests | answers >alone
        zt-run -m $model.gguf --raw --jsonl --draft mtp --draft-tokens 5 <requests | answers | cmp alone
        zt-run -m $model.gguf --raw --jsonl --chunk 3 --draft mtp <requests | answers | cmp alone
        while read -r line; do # a line is read when those before it are answered
            zt-run -m $model.gguf --raw --jsonl --draft mtp --draft-tokens 7 <<<"$line"
        done <requests | answers | cmp alone
    done
    zt-run -m qwen35.planted.gguf --raw --jsonl --draft mtp --draft-tokens 4 < <(sed -n 1p requests) >json
    json '$j->{accepted} >= 30 && $j->{drafted} - $j->{accepted} <= 2' <json
}

@test "--serve: the answers of a server without drafts" {
    command -v curl >/dev/null || skip "no curl"
    for draft in '' '--draft mtp --draft-tokens 4'; do
        # shellcheck disable=SC2086
        zt-run -v -m qwen35.planted.gguf --serve unix:s $draft 2>err 3>&- &
        server=$!
        for _ in {1..600}; do curl -sf --unix-socket s http://localhost/health >/dev/null && break; kill -0 $server || skip "no server here"; sleep .1; done
        for n in 3 30; do
            for temperature in 0 0.7; do
                curl -sf --unix-socket s http://localhost/v1/completions -H 'Content-Type: application/json' \
                    -d "{\"model\":\"model\",\"prompt\":\"$words\",\"max_tokens\":$n,\"temperature\":$temperature,\"seed\":5,\"n\":2}"
            done
        done | perl -MJSON::PP -ne 'my $j = decode_json($_); print map { "$_->{index} $_->{finish_reason} " . JSON::PP->new->allow_nonref->utf8->encode($_->{text}) . "\n" }
            sort { $a->{index} <=> $b->{index} } @{$j->{choices}}' >"answers${draft:+.draft}"
        kill -TERM $server
        wait $server || true
    done
    [ "$(wc -l <answers)" -eq 8 ]
    cmp answers answers.draft
}

@test "a directory's head is in the GGUF, the quantized file and the directory that is written again, and drafts from each" {
    for name in qwen3next qwen35 qwen35moe glm4_moe; do
        rm -rf folder back
        mkdir folder
        cp "$tests/../heads/$name-head"/* "$tests/../state_space-ggufs/dress/gpt2"/* folder/
        zt-convert -q -f folder a.gguf
        zt-quant -q -f --type q8_0 a.gguf b.gguf
        zt-convert -q --to hf a.gguf back
        zt-convert -q -f back c.gguf
        cmp <(zt-convert --hash a.gguf) <(zt-convert --hash c.gguf)
        zt-convert --meta a.gguf --format tsv | grep -q 'nextn_predict_layers.*1$'
        for model in folder a.gguf b.gguf back; do
            text=(zt-run -m $model --raw -p 'ab cd ab cd ab' -n 24 --temp 0 --ignore-eos -c 64)
            "${text[@]}" >alone
            "${text[@]}" --draft mtp --draft-tokens 3 --stats 2>err | cmp - alone
            grep -qE 'speculation +[1-9]' err
        done
    done
    # llama.cpp would run a head of deepseek2 as a layer: a file has none, and the directory drafts
    for name in deepseek-v3 deepseek-v32; do
        rm -rf folder
        mkdir folder
        cp "$tests/../heads/$name-head"/* "$tests/../state_space-ggufs/dress/gpt2"/* folder/
        text=(zt-run -m folder --raw -p 'ab cd ab cd ab' -n 24 --temp 0 --ignore-eos -c 64)
        "${text[@]}" >alone
        "${text[@]}" --draft mtp --draft-tokens 3 --stats 2>err | cmp - alone
        grep -qE 'speculation +[1-9]' err
        zt-convert -v -f folder a.gguf 2>err
        grep -q 'tensors of multi-token-prediction heads are left out' err
        [ -z "$(zt-convert --list a.gguf | grep 'blk[.]2[.]')" ]
        zt-convert --meta a.gguf --format tsv | grep -q 'block_count.*2$'
    done
    # what is behind the last layer and no head is left out, and -v says so
    rm -rf folder
    mkdir folder
    cp "$tests/../latent/deepseek-v3"/* "$tests/../state_space-ggufs/dress/gpt2"/* folder/
    zt-run -v -m folder --raw -p ab -n 1 2>err >text
    grep -q 'folder: 2 tensors of multi-token-prediction heads are left out' err
    run -65 zt-run -m folder --raw -p ab -n 1 --draft mtp
    [[ $output == *"folder: the model has no multi-token-prediction head"* ]]
}

@test "-v says whether heads are used; --dry-run counts them; what cannot draft is refused by its name" {
    zt-run -v -m qwen35.gguf --raw -p hi -n 1 2>err >text
    grep -q 'qwen35.gguf: 1 multi-token-prediction head is not used' err
    zt-run -v -m two.gguf --raw -p hi -n 1 2>err >text
    grep -q 'two.gguf: 2 multi-token-prediction heads are not used' err
    zt-run -v -m two.gguf --raw -p hi -n 1 --draft mtp 2>err >text
    grep -q 'two.gguf: the first multi-token-prediction head drafts' err
    zt-run -v -m llama.gguf --raw -p hi -n 1 2>err >text
    grep -q 'llama.gguf: 1 multi-token-prediction head is not used' err
    zt-run -m qwen35.gguf --dry-run --format tsv >without
    zt-run -m qwen35.gguf --dry-run --format tsv --draft mtp >with
    perl -F'\t' -ane '$n{$ARGV}{$F[0]} = $F[1]; END { exit !($n{with}{draft} > 0 && $n{with}{weights} == $n{without}{weights}
        && $n{with}{total} >= $n{with}{draft} + $n{with}{weights} + $n{with}{kv}) }' without with
    zt-trace record -m qwen35.gguf -c 64 | zt-trace compile --bind n=1,m=1,ctx=64 >plan
    zt-trace record -m qwen35.gguf --forward >forward.zt
    while read -r code says options; do
        # shellcheck disable=SC2086
        run --separate-stderr zt-run $options
        echo "$options: $status $stderr"
        [ "$status" -eq "$code" ]
        [[ $stderr == *"${says//_/ }"* ]]
        one_message zt-run
    done <<'END'
65 none.gguf:_the_model_has_no_multi-token-prediction_head -p hi -n 4 -m none.gguf --draft mtp
65 none.gguf:_the_model_has_no_multi-token-prediction_head -m none.gguf --draft mtp --dry-run
69 multi-token-prediction_heads_of_llama_models_are_not_supported -p hi -n 4 -m llama.gguf --draft mtp
64 --plan -p hi -n 4 -m qwen35.gguf --draft mtp --plan plan
64 --program -p hi -n 4 -m qwen35.gguf --draft mtp --program forward.zt
66 ./mtp -p hi -n 4 -m qwen35.gguf --draft ./mtp
64 --no-kv-cache -p hi -n 4 -m qwen35.gguf --draft mtp --no-kv-cache
END
}
