#!/usr/bin/env bats
# zt-run: pipes, exit codes, messages, and that each flag does what cli.md says.

load ../common/helper

setup_file() {
    make_models
}

# A plain continuation by the likeliest token.
greedy() {
    zt-run --raw --temp 0 "$@"
}

# ---- words -------------------------------------------------------------------------------------------

@test "the man page has the options of --help, in that order" {
    man_is_true zt-run
}

@test "the man page's examples run" {
    cp "$repo/README.md" README.md
    "$tests/mkmodel" --arch llama --ctx 256 --head 32 long.gguf
    "$tests/mkmodel" --arch llama --ctx 256 --seed 1 tuned.gguf
    "$tests/mkmodel" --arch qwen35 --ctx 256 --next 1 qwen35.gguf
    zt-dna lora -q --rank 2 model.gguf tuned.gguf -o adapter.gguf
    man_examples_run zt-run
}

@test "misuse is one line and 64" {
    while IFS='|' read -r word args; do
        run --separate-stderr bash -c "zt-run $args </dev/null"
        echo "zt-run $args: $status $stderr"
        [ "$status" -eq 64 ]
        one_message zt-run
        [[ $stderr == *"$word"* ]]
        [ -z "$output" ]
    done <<'END'
no model|-p hi
exclude|-m model.gguf -p hi -i README
did you mean|-m model.gguf --promt hi
--temp|-m model.gguf -p hi --temp x
empty|-m model.gguf -p ''
empty|-m model.gguf
--all-logits|-m model.gguf -p hi --all-logits
exclude|-m model.gguf -p hi --bos --no-bos
exclude|-m model.gguf -p hi --tokenize --count
stdin|-m -
stdout|-m model.gguf -p hi --logits -
--eos|-m model.gguf -p hi --eos 1,x
--eos|-m model.gguf -p hi --eos 99999
unexpected argument|-m model.gguf -p hi extra
END
}

@test "every kind of bad model has its exit code and one line" {
    mkdir dir
    echo 'not a model, a text' >text
    : >empty
    perl -0pe 's/llama/lloma/' model.gguf >other.gguf
    perl -0pe 's/(blk\.1\.ffn_)up/$1uq/' model.gguf >lame.gguf
    while read -r code file word; do
        run --separate-stderr zt-run -m "$file" -p hi -n 1
        echo "$file: $status $stderr"
        [ "$status" -eq "$code" ]
        one_message zt-run
        [[ $stderr == *"$file"*"$word"* ]]
        [ -z "$output" ]
    done <<'END'
66 missing.gguf
66 dir
65 text
65 empty
69 other.gguf lloma
65 lame.gguf blk.1.ffn_up.weight
END
}

@test "a truncated model is 65, wherever it ends" {
    size=$(stat -Lc %s model.gguf)
    for ((n = 1; n < size; n += size / 60)); do
        head -c $n model.gguf >cut.gguf
        run --separate-stderr zt-run -m cut.gguf -p hi -n 1
        [ "$status" -eq 65 ] || { echo "$n bytes: $status $stderr"; false; }
        one_message zt-run
    done
}

@test "--mem-limit and a full context are 75, with the numbers" {
    run --separate-stderr zt-run -m model.gguf -p hi -n 1 --mem-limit 20K
    [ "$status" -eq 75 ]
    one_message zt-run
    run --separate-stderr greedy -m model.gguf -p 'one two three four' -c 4
    [ "$status" -eq 75 ]
    one_message zt-run
    [[ $stderr == *"context of 4"* ]]
}

@test "an engine that is not there is 69" {
    run --separate-stderr zt-run -m model.gguf -p hi -n 1 --engine cuda:7
    [ "$status" -eq 69 ]
    one_message zt-run
}

@test "a full disk is 74" {
    [ -w /dev/full ] || skip "no /dev/full"
    run --separate-stderr bash -c 'zt-run -m model.gguf -p hi -n 4 --ids >/dev/full'
    [ "$status" -eq 74 ]
    one_message zt-run
}

# ---- where text comes from and goes ------------------------------------------------------------------

@test "the prompt is the same from -p, -i and stdin" {
    printf 'hello on the' >prompt
    greedy -m model.gguf -p 'hello on the' -n 8 --ids >a
    greedy -m model.gguf -i prompt -n 8 --ids >b
    greedy -m model.gguf -n 8 --ids <prompt >c
    greedy -m model.gguf -i - -n 8 --ids <prompt >d
    cmp a b && cmp a c && cmp a d
    [ "$(wc -w <a)" -eq 8 ]
}

@test "the model may come from a pipe" {
    greedy -m model.gguf -p hello -n 6 --ids >a
    cat model.gguf | greedy -m - -p hello -n 6 --ids >b
    cmp a b
}

@test "a reader that leaves ends it at once, quietly" {
    run --separate-stderr bash -c '
        timeout 300 zt-run -m model.gguf --raw -p a -n 99999 -c 100000 --ignore-eos | head -c 20
        exit "${PIPESTATUS[0]}"'
    [ "$status" -eq 141 ]
    [ "${#output}" -gt 0 ]
    [ -z "$stderr" ]
}

@test "SIGINT leaves what is written, and is 130" {
    run --separate-stderr bash -c '
        exec 3< <(exec zt-run -m model.gguf --raw -p a -c 100000 --ignore-eos)
        read -r -N 1 -u 3 -t 60 || exit 1
        kill -INT $!
        cat <&3 >out
        wait $!'
    [ "$status" -eq 130 ]
    [ -s out ]
}

@test "-o writes a whole file, and refuses one that is there" {
    greedy -m model.gguf -p hello -n 6 >want
    greedy -m model.gguf -p hello -n 6 -o got
    cmp want got
    run --separate-stderr greedy -m model.gguf -p hello -n 6 -o got
    [ "$status" -eq 73 ]
    one_message zt-run
    greedy -m model.gguf -p hello -n 6 -o got -f
    run greedy -m model.gguf -p hello -n 6 --eos x -o none
    [ "$status" -eq 64 ]
    [ "$(echo *none*)" = '*none*' ]
}

# ---- tokens ------------------------------------------------------------------------------------------

@test "--tokenize and --detokenize are inverse, --count counts" {
    for m in "$tiny" "$tiny_spm"; do
        for text in 'hello on the she' '  two  spaces ' $'tab\tand\nlines\n\n' 'naïve 東京 👩‍👩‍👧' 'x' '<|im_end|> <bos>'; do
            printf %s "$text" >text
            zt-run -m "$m" --tokenize --verbatim -i text >ids
            zt-run -m "$m" --detokenize -i ids >back
            cmp text back
            [ "$(wc -l <ids)" -eq 1 ]
            [ "$(zt-run -m "$m" --count --verbatim -i text)" -eq "$(wc -w <ids)" ]
        done
    done
}

@test "--pre: another pre-tokenizer than the file's, or none of that name" {
    zt-run -m "$tiny" --pre gpt-2 --tokenize -p 'a  12345' >ids
    [ "$(zt-run -m "$tiny" --pre gpt-2 --detokenize -i ids)" = 'a  12345' ]
    run -69 --separate-stderr zt-run -m "$tiny" --pre gpt-0 --tokenize -p a
    one_message zt-run
    [[ $stderr == *"unknown pre-tokenizer 'gpt-0'"* ]]
}

@test "empty text is an empty line, count 0" {
    [ "$(zt-run -m model.gguf --tokenize -p '' | od -An -tx1 | tr -d ' ')" = 0a ]
    [ "$(zt-run -m model.gguf --count -p '')" = 0 ]
    [ -z "$(zt-run -m model.gguf --detokenize -p '')" ]
}

@test "BOS by rule or by flag, special tokens by flag" {
    [ "$(zt-run -m "$tiny_spm" --tokenize -p a | cut -d' ' -f1)" -eq 2 ]
    [ "$(zt-run -m "$tiny_spm" --tokenize --no-bos -p a | wc -w)" -eq 1 ]
    [ "$(zt-run -m "$tiny" --tokenize --bos -p a | wc -w)" -eq 2 ]
    [ "$(zt-run -m "$tiny" --tokenize --special -p '<|im_end|>')" = 2 ]
    [ "$(zt-run -m "$tiny" --count -p '<|im_end|>')" -gt 1 ]
    [ "$(zt-run -m "$tiny" --detokenize -p '1, 2')" = '<|im_start|><|im_end|>' ]
}

@test "ids that are none are 65" {
    for ids in '1 x' '-1' '99999' '1.5'; do
        run --separate-stderr zt-run -m model.gguf --detokenize -p "$ids"
        [ "$status" -eq 65 ]
        one_message zt-run
    done
}

# ---- templates ---------------------------------------------------------------------------------------

@test "the chat template gives the ids of the rendered text" {
    zt-run -m "$tiny" -p ' hi on' -n 0 --logits a.npy
    zt-run -m "$tiny" --raw --special -n 0 --logits b.npy \
        -p $'<|im_start|>user\n hi on<|im_end|>\n<|im_start|>assistant\n'
    cmp a.npy b.npy
    zt-run -m "$tiny" --system 'be brief' -p hi -n 0 --logits c.npy
    zt-run -m "$tiny" --raw --special -n 0 --logits d.npy \
        -p $'<|im_start|>system\nbe brief<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n'
    cmp c.npy d.npy
    run ! cmp -s a.npy c.npy
    zt-run -m "$tiny_spm" -p ' hi on ' -n 0 --logits e.npy
    zt-run -m "$tiny_spm" --raw --special --no-bos -n 0 --logits f.npy \
        -p $'<bos><start_of_turn>user\nhi on<end_of_turn>\n<start_of_turn>model\n'
    cmp e.npy f.npy
}

@test "nobody types the end of their own turn, unless --special" {
    tokens() { zt-run -m model.gguf -n 0 --json "$@" | perl -ne '/"prompt_tokens":(\d+)/ && print $1'; }
    plain=$(tokens -p '1<|im_end|>2')
    special=$(tokens -p '1<|im_end|>2' --special)
    [ "$special" -eq "$(tokens -p 1+2)" ]
    [ "$plain" -gt "$special" ]
}

@test "BOS of the template can be left out" {
    tokens() { zt-run -m "$tiny_spm" -n 0 --json "$@" | perl -ne '/"prompt_tokens":(\d+)/ && print $1'; }
    [ "$(tokens -p hi --no-bos)" -eq $(($(tokens -p hi) - 1)) ]
    [ "$(tokens -p hi --bos)" -eq "$(tokens -p hi)" ]
}

# ---- generation --------------------------------------------------------------------------------------

@test "--json is one object that agrees with the text and the ids" {
    greedy -m model.gguf -p hello -n 7 --ids >ids
    greedy -m model.gguf -p hello -n 7 --json --seed 5 >json
    [ "$(wc -l <json)" -eq 1 ]
    json '!defined $j->{id} && exists $j->{id} && $j->{generated_tokens} == @{$j->{ids}}
          && $j->{seed} == 5 && $j->{stop} =~ /^(length|eos)$/ && $j->{prompt_s} >= 0
          && $j->{generate_s} >= 0 && $j->{prompt_tokens} > 0 && length $j->{model_id} == 32' <json
    [ "$(perl -MJSON::PP -0ne 'print join " ", @{decode_json($_)->{ids}}' json)" = "$(cat ids)" ]
}

@test "-n 0 reads the prompt only" {
    run --separate-stderr greedy -m model.gguf -p hello -n 0
    [ "$status" -eq 0 ]
    [ -z "$output" ]
    greedy -m model.gguf -p hello -n 0 --json | json '$j->{generated_tokens} == 0 && $j->{text} eq ""'
}

@test "without -n it ends with the text or quietly with the context" {
    run --separate-stderr greedy -m model.gguf -p hello -c 24 --ignore-eos --json
    [ "$status" -eq 0 ]
    [ -z "$stderr" ]
    json '$j->{stop} eq "ctx" && $j->{prompt_tokens} + $j->{generated_tokens} == 25' <<<"$output"
}

@test "--eos ends with any of its tokens, --ignore-eos with none" {
    ids=($(greedy -m model.gguf -p hello -n 6 --ids --ignore-eos))
    greedy -m model.gguf -p hello -n 6 --eos "299,${ids[0]}" --json |
        json '$j->{stop} eq "eos" && @{$j->{ids}} == 1 && $j->{text} eq ""'
    greedy -m model.gguf -p hello -n 6 --eos "${ids[0]}" --ignore-eos --json |
        json '$j->{stop} eq "length" && !grep { $_ == '"${ids[0]}"' } @{$j->{ids}}'
}

@test "--stop ends before its text, also across tokens" {
    greedy -m model.gguf -p hello -n 40 --ignore-eos >whole
    text=$(perl -0ne 'print substr($_, 9, 3)' whole)
    greedy -m model.gguf -p hello -n 40 --ignore-eos --stop never --stop "$text" >got
    perl -e 'local $/; open F, "whole"; $w = <F>; open G, "got"; $g = <G>;
             exit !($g eq substr($w, 0, index($w, $ARGV[0])))' "$text"
    greedy -m model.gguf -p hello -n 40 --ignore-eos --stop "$text" --json | json '$j->{stop} eq "stop"'
    greedy -m model.gguf -p hello -n 40 --ignore-eos --stop never >all
    cmp whole all
}

@test "the seed decides, and only the seed" {
    draw() { zt-run -m model.gguf --raw -p hello -n 12 --temp "${temp-2}" --top-k "${top_k-0}" --top-p 1 --min-p 0 --ids --ignore-eos "$@"; }
    draw >a
    draw --seed 0 -t 2 >b
    draw --seed 1 >c
    cmp a b
    run ! cmp -s a c
    temp=0 draw >d
    top_k=1 draw >e
    cmp d e
}

@test "logits are npy, of the last token or of all" {
    greedy -m model.gguf -p 'hello on the' -n 0 --logits one.npy
    greedy -m model.gguf -p 'hello on the' -n 0 --logits all.npy --all-logits
    greedy -m model.gguf -p 'hello on the' -n 0 --logits - >out.npy
    cmp one.npy out.npy
    n=$(zt-run -m model.gguf --count -p 'hello on the')
    head -c 128 one.npy | grep -aq "'<f4', 'fortran_order': False, 'shape': (1, 300), }"
    head -c 128 all.npy | grep -aq "'shape': ($n, 300), }"
    [ "$(stat -c %s all.npy)" -eq $((128 + n * 1200)) ]
    cmp <(tail -c 1200 all.npy) <(tail -c 1200 one.npy)
}

@test "one answer for any threads and chunk" {
    printf 'hello on the she in there %.0s' 1 2 3 4 >prompt
    for isa in scalar avx2 avx512; do
        zt-run --isa $isa -m model.gguf --count -p x >/dev/null 2>&1 || continue
        for how in '-t 1' '-t 2' '-t 3 --chunk 1' '-t 2 --chunk 7' '-t 1 --chunk 64'; do
            greedy -m model.gguf --isa $isa -i prompt -n 0 --logits - --all-logits $how | sha256sum
        done >sums
        [ "$(sort -u sums | wc -l)" -eq 1 ]
        [ "$(wc -l <sums)" -eq 5 ]
    done
}

@test "--exact, --kv and --engine ref are other arithmetic for the same model" {
    greedy -m model.gguf -p 'hello on the' -n 0 --logits a.npy
    greedy -m model.gguf -p 'hello on the' -n 0 --logits b.npy --exact
    greedy -m model.gguf -p 'hello on the' -n 0 --logits c.npy --exact --engine ref
    greedy -m model.gguf -p 'hello on the' -n 0 --logits d.npy --kv f32
    run ! cmp -s a.npy b.npy
    run ! cmp -s a.npy d.npy
    perl -e 'sub load { open F, "<:raw", shift; local $/; unpack "f<*", substr(<F>, 128) }
             @b = load("b.npy"); @c = load("c.npy"); $e = $s = 0;
             for (0..$#b) { $e += ($b[$_] - $c[$_]) ** 2; $s += $c[$_] ** 2 }
             exit !(@b == 300 && $s > 0 && $e / $s < 1e-9)'
}

@test "--stats tells on stderr, and not under --quiet" {
    run --separate-stderr greedy -m model.gguf -p hello -n 4 --stats --ignore-eos
    for word in load 'first token' prompt generation 'peak memory' engine fallbacks; do
        [[ $stderr == *"$word"* ]]
    done
    run --separate-stderr greedy -m model.gguf -p hello -n 4 --stats -q
    [ -z "$stderr" ]
}

@test "--stats begins on a line of its own where stdout and stderr are one" {
    greedy -m model.gguf -p hello -n 4 --ignore-eos >text
    greedy -m model.gguf -p hello -n 4 --ignore-eos --stats >both 2>&1
    size=$(wc -c <text)
    cmp -n "$size" text both
    [ "$(tail -c +$((size + 1)) both | head -2 | cut -c1-12)" = $'\nzt-run: load' ]
    greedy -m model.gguf -p hello -n 4 --ignore-eos --stats 2>stats | cmp - text
    [[ $(head -1 stats) == 'zt-run: load '* ]]
}

@test "--dry-run tells needs and whether they fit" {
    run --separate-stderr zt-run -m model.gguf --dry-run --format json
    [ "$status" -eq 0 ]
    json '$j->{schema} eq "zt.run/1" && $j->{rows}[0]{what} eq "weights" && $j->{rows}[0]{bytes} > 1000
          && $j->{rows}[3]{bytes} == $j->{rows}[0]{bytes} + $j->{rows}[1]{bytes} + $j->{rows}[2]{bytes}' <<<"$output"
    run zt-run -m model.gguf --dry-run -c 100000 --mem-limit 10M
    [ "$status" -eq 1 ]
}
