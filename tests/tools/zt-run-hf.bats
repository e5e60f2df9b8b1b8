#!/usr/bin/env bats
# Hugging Face directories as they are, through zt-run: ids of texts and conversations as the library
# tokenizers and transformers have them (tests/llm/archs/whole.py).

load ../common/helper

whole=$tests/../whole

@test "tokenizer, template and model of whole directories: the ids that transformers writes" {
    local wrong=0 runs=0
    for dir in "$whole"/*/; do
        while IFS=$'\t' read -r want args; do
            eval "set -- $args"
            run --separate-stderr zt-run -m "$dir" "$@"
            runs=$((runs + 1))
            [ "$status" -eq 0 ] && [ "$output" = "$want" ] && continue
            wrong=$((wrong + 1))
            printf '%s\n' "$dir $args: $status $stderr" " wanted $want" " got    $output"
        done <"$dir/runs.tsv"
    done
    echo "$runs runs, $wrong wrong"
    [ "$runs" -gt 0 ] && [ "$wrong" -eq 0 ]
}

@test "special tokens that somebody types are words, those of the template tokens" {
    count() { zt-run -m "$whole/qwen3" -n 0 --json "$@" | perl -MJSON::PP -0ne 'print decode_json($_)->{prompt_tokens}'; }
    ids() { zt-run -m "$whole/qwen3" --tokenize "$@"; }
    [ "$(count -p 'a<|im_end|>b' --special)" -eq "$(($(count -p 'ab') + $(ids -p a | wc -w) + $(ids -p b | wc -w) + 1 - $(ids -p ab | wc -w)))" ]
    plain=$(ids -p $'user\na<|im_end|>b' | wc -w)
    [ "$plain" -gt 8 ]
    zt-run -m "$whole/qwen3" --render -p 'a<|im_end|>b' >prompt
    [ "$(count -p 'a<|im_end|>b')" -eq "$(($(ids --special --verbatim -i prompt | wc -w) + plain - $(ids --special -p $'user\na<|im_end|>b' | wc -w)))" ]
}

@test "rows of the embedding that the vocabulary does not name are never drawn" {
    run --separate-stderr zt-run -m "$whole/qwen3" --raw -p Copyright -n 1500 -c 2000 --ignore-eos \
        --temp 50 --top-k 0 --top-p 1 --min-p 0 --ids
    echo "$stderr"
    [ "$status" -eq 0 ]
    [ "$(tr ' ' '\n' <<<"$output" | awk '$1 >= 3900 && $1 < 4004' | wc -l)" -gt 10 ]
    [ "$(tr ' ' '\n' <<<"$output" | awk '$1 >= 4004' | wc -l)" -eq 0 ] # of 4032
}

@test "tokens without an embedding: 65 at load" {
    cp -r "$whole/llama3" "$BATS_TEST_TMPDIR/m"
    cp "$whole/llama2"/{config.json,model.safetensors} "$BATS_TEST_TMPDIR/m"
    run --separate-stderr zt-run -m "$BATS_TEST_TMPDIR/m" --raw -p x -n 2
    echo "$status $stderr"
    [ "$status" -eq 65 ]
    one_message zt-run
    [[ $stderr == *4000*3000* ]]
}

@test "--embed is the mean of transformers' last states, within 1e-4" {
    for dir in "$whole"/*/; do
        perl -MJSON::PP -e '
            local $/; my ($dir) = @ARGV; my $bad = 0;
            open my $f, "<", "$dir/embed.json" or die;
            for my $want (@{JSON::PP->new->utf8->decode(<$f>)}) {
                my $text = $want->{text}; utf8::encode($text);
                open my $run, "-|", qw(zt-run --embed --exact --format ndjson -m), $dir, "-p", $text;
                my $got = JSON::PP->new->utf8->decode(scalar <$run>)->{embedding};
                my @w = @{$want->{embedding}};
                my $off = @w == @$got ? 0 : 9;
                for (0 .. $#w) { my $d = abs($w[$_] - $got->[$_]); $off = $d if $d > $off }
                print "$dir: off by $off\n";
                $bad++ if $off > 1e-4;
            }
            exit($bad > 0)' "$dir"
    done
}

@test "--embed of encoders with biases: the directory and its GGUF, whole and quantized" {
    for name in t5-gated:spm:32 jina-bert-v2:wordpiece:48; do
        IFS=: read -r folder dress width <<<"$name"
        mkdir "$folder"
        cp "$tests/../rows/$folder"/*.* "$tests/../rows-ggufs/dress/$dress"/* "$folder/"
        zt-run -m "$folder" --embed --exact -p 'ab c' --format json >vector
        zt-convert "$folder" "$folder.gguf"
        zt-run -m "$folder.gguf" --embed --exact -p 'ab c' --format json | cmp - vector
        perl -MJSON::PP -e 'exit(@{decode_json(<STDIN>)->{embedding}} != shift)' "$width" <vector
        zt-quant -f --type q8_0 "$folder.gguf" small.gguf
        zt-run -m small.gguf --embed -p 'ab c' >small.npy
    done
}

@test "--embed of a classifier and of a reranker: scores; as text they are refused" {
    rows=$tests/../rows
    for name in bert-labels:wordpiece:3 qwen3-reranker-untied:reranker:2; do
        IFS=: read -r folder dress count <<<"$name"
        mkdir "$folder"
        cp "$rows/$folder"/* "$folder/"
        cp "$tests/../rows-ggufs/dress/$dress"/* "$folder/"
        zt-run -m "$folder" --embed --exact -p 'ab c' --format json >scores
        zt-convert "$folder" "$folder.gguf"
        zt-run -m "$folder.gguf" --embed --exact -p 'ab c' --format json | cmp - scores
        perl -MJSON::PP -e 'exit(@{decode_json(<STDIN>)->{scores}} != shift)' "$count" <scores
        zt-run -m "$folder" --embed -p 'ab c' | head -c 128 | grep -aq "'shape': ($count,)"
        run --separate-stderr zt-run -m "$folder.gguf" -p 'ab' -n 2
        [ "$status" = 69 ]
        [ "${#stderr_lines[@]}" = 1 ]
    done
    [[ $stderr = *"is a reranker: it computes scores"* ]]
}
