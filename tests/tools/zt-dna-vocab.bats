#!/usr/bin/env bats
# zt-dna merge of models with different tokens: rows as mergekit has them (tests/dna/vocab), the child's tokenizer, refusals.

load ../common/helper

setup() {
    cd "$BATS_TEST_TMPDIR" || exit
    set=$(cd "${ZT_TESTS:-build/tests}/.." && pwd)/vocab
    for m in base one two more; do ln -s "$set/$m" .; done
    cp "$set"/*.json .
}
refused() { # CODE WORD RECIPE
    printf '%s' "$3" >r.json
    run --separate-stderr zt-dna merge --config r.json -o x.gguf
    echo "$3: $status $stderr"
    [ "$status" -eq "$1" ] && one_message zt-dna && [[ $stderr == *"$2"* ]] && [ ! -e x.gguf ]
}
linear() { # KEYS: a recipe of three models
    printf '{"merge_method": "linear", "base_model": "base", "parameters": {"weight": 1}, "models": [{"model": "one"}, {"model": "two"}], %s}' "$1"
}
tokens() { # FILE: a text in a line
    zt-convert --meta "$1" | perl -CO -MJSON::PP -F'\t' -lane 'if ($F[0] eq "tokenizer.ggml.tokens") {print for @{decode_json $F[2]}}'
}
meta() { # KEY FILE
    zt-convert --meta "$2" | awk -F'\t' -v k="$1" '$1 == k {print $3}'
}

column() { tail -c +129 "$1" | od -An -v -t f4 -w4; } # f32, little-endian, behind a header of 128 bytes

@test "rows and tokens are mergekit's, to the bit" {
    for recipe in base one union mean source tokens stack rectify; do
        zt-dna merge -q --config $recipe.json -o $recipe.gguf
        count=$(wc -l <"$set/$recipe.tokens")
        [ "$count" -gt 270 ]
        for name in token_embd output; do
            zt-convert --cat $name.weight $recipe.gguf >ours.npy
            zt-convert --cat $name.weight "$set/$recipe.safetensors" >theirs.npy
            cmp -n $((128 + count * 32)) ours.npy theirs.npy || { echo "$recipe $name"; false; }
            # rows that only fill, of means: mergekit sums them in f32
            paste <(column ours.npy) <(column theirs.npy) | awk -v "rows=$count" '{d = $1 - $2; d = d < 0 ? -d : d; if (d > most) most = d}
                END {print NR, most; exit !(NR >= rows * 8 && most < 1e-7)}'
        done
        zt-convert --check $recipe.gguf
        [ "$(meta llama.vocab_size $recipe.gguf)" -ge "$count" ]
        zt-run -m $recipe.gguf -p 'the cat' -n 2 --temp 0 --ids >ids
        [ "$(wc -w <ids)" -eq 2 ]
    done
    command -v perl >/dev/null && perl -MJSON::PP -e 1 2>/dev/null || skip "no JSON::PP"
    for recipe in base one union mean source stack rectify; do diff "$set/$recipe.tokens" <(tokens $recipe.gguf) || { echo $recipe; false; }; done
    diff "$set/tokens.tokens" <(tokens tokens.gguf | head -n -12)
    diff <(tokens tokens.gguf | tail -n 12) <(seq -f '[PAD%g]' 288 299)
}

@test "more tokens: special ones are found in text, and a directory has them" {
    zt-dna merge -q --config tokens.json -o tokens.gguf
    zt-dna merge -q --config tokens.json -o T/
    for model in tokens.gguf T; do
        zt-run -m $model --tokenize --special --no-bos -p '<|user|>a<|end|>' >ids
        [ "$(cat ids)" = "$(zt-run -m tokens.gguf --tokenize --special --no-bos -p '<|user|>a<|end|>')" ]
        [ "$(wc -w <ids)" -eq 3 ]
    done
}

@test "any number of threads, other types, one model: the same rows" {
    zt-dna merge -q -t 1 --config union.json -o one.gguf
    zt-dna merge -q -t 3 --config union.json -o three.gguf
    cmp one.gguf three.gguf
    # rows of another type: read as numbers, and the first model's type again
    zt-convert -q --dtype f16 base half.gguf
    sed 's/"base"/"half.gguf"/g; s/"dtype": "float32", //' union.json >half.json
    zt-dna merge -q --config half.json -o half-union.gguf
    [ "$(zt-convert --list half-union.gguf | grep -c '^token_embd.weight.*f16')" -eq 1 ]
    sed 's/"base"/"half.gguf"/g' union.json >wide.json
    zt-dna merge -q --config wide.json -o wide.gguf
    diff <(zt-convert --hash one.gguf | grep -E 'token_embd|output') <(zt-convert --hash wide.gguf | grep -E 'token_embd|output')
    # one model is copied, with rows of zeros behind it, and cut back
    echo '{"merge_method": "passthrough", "models": [{"model": "base"}],
        "tokenizer": {"source": "base", "tokens": {"<|new|>": {"source": {"kind": "zero"}}}}}' >more.json
    zt-dna merge -q --config more.json -o more.gguf
    zt-convert --cat token_embd.weight base >was.npy
    zt-convert --cat token_embd.weight more.gguf >is.npy
    cmp <(tail -c +129 was.npy) <(tail -c +129 is.npy | head -c -32)
    cmp <(tail -c 32 is.npy) <(head -c 32 /dev/zero)
    echo '{"merge_method": "linear", "base_model": "more.gguf", "rectify_embed": true, "parameters": {"weight": 0.5},
        "models": [{"model": "base"}, {"model": "more.gguf"}]}' >cut.json
    zt-dna merge -q --config cut.json -o cut.gguf
    diff <(zt-convert --hash base) <(zt-convert --hash cut.gguf)
    diff <(zt-convert --meta base | grep '^tokenizer.ggml') <(zt-convert --meta cut.gguf | grep '^tokenizer.ggml')
}

@test "a tokenizer.json gets the new tokens, and is not cut; one without keys is refused" {
    zt-convert -q --set "tokenizer.huggingface.json=$(cat base/tokenizer.json)" base whole.gguf
    sed 's/"base"/"whole.gguf"/g' union.json >r.json
    zt-dna merge -q --config r.json -o new.gguf
    [ -n "$(meta tokenizer.huggingface.json new.gguf)" ]
    zt-dna merge -q --config union.json -o keys.gguf
    for text in 'the cat, red thing' '<|tool|>the<|user|> dog'; do
        diff <(zt-run -m new.gguf --tokenize --special --no-bos -p "$text") <(zt-run -m keys.gguf --tokenize --special --no-bos -p "$text")
    done
    zt-convert -qf --set "tokenizer.huggingface.json=$(cat more/tokenizer.json)" more whole.gguf
    refused 69 'kept whole and cannot be cut to 273' '{"merge_method": "linear", "rectify_embed": true, "base_model": "whole.gguf",
        "parameters": {"weight": 1}, "models": [{"model": "base"}]}'
    cp -rL base alone
    sed -i 's/"pre_tokenizer": \({[^}]*}\)/"pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Punctuation", "behavior": "Isolated"}, \1]}/' \
        alone/tokenizer.json
    zt-convert -q alone alone.gguf 2>said
    refused 69 'its tokens cannot be aligned' "$(linear '"tokenizer": {"source": "union"}' | sed 's/"one"/"alone.gguf"/')"
}

@test "models with the same tokens are merged as before" {
    echo '{"merge_method": "linear", "parameters": {"weight": 0.5}, "models": [{"model": "base"}, {"model": "same"}]}' >plain.json
    cp -rL base same
    zt-dna merge -q --config plain.json -o plain.gguf
    for source in union base same; do
        sed 's/^{/{"tokenizer": {"source": "'$source'"}, /' plain.json >r.json
        zt-dna merge -q --config r.json -f -o r.gguf
        diff <(zt-convert --hash plain.gguf) <(zt-convert --hash r.gguf)
    done
}

@test "what cannot be aligned or cut is one line" {
    refused 65 "token 266 is 'Ġdog', but in base it is" "$(linear '"dtype": "float32"' | sed 's/{"model": "two"}/{"model": "base"}/')" ||
        [[ $stderr == *'models with different tokens need a tokenizer'* ]]
    refused 65 'but in base it is' "$(linear '"rectify_embed": true')"
    refused 65 "token '<|x|>': not every model has it: expected the key 'source'" "$(linear '"tokenizer": {"tokens": {"<|x|>": {}}}')"
    refused 65 "token '<|user|>': its source has no such token: two" "$(linear '"tokenizer": {"tokens": {"<|user|>": {"source": "two"}}}')"
    refused 65 "token '<|x|>': its source has no such token: one" \
        "$(linear '"tokenizer": {"tokens": {"<|x|>": {"source": {"kind": "model_token", "model": "one", "token": "none"}}}}')"
    refused 65 "token '<|x|>': its source has no such token: one" \
        "$(linear '"tokenizer": {"tokens": {"<|x|>": {"source": {"kind": "model_token", "model": "one", "token_id": 5000}}}}')"
    refused 65 "token '<s>': its source is not merged into this tensor: more" "$(linear '"tokenizer": {"tokens": {"<s>": {"source": "more", "force": true}}}')"
    refused 65 "'force' without 'source'" "$(linear '"tokenizer": {"tokens": {"<s>": {"force": true}}}')"
    refused 65 "unknown kind 'one': expected one of zero, model_token" "$(linear '"tokenizer": {"tokens": {"<s>": {"source": {"kind": "one"}}}}')"
    refused 65 "exactly one of 'token' and 'token_id'" "$(linear '"tokenizer": {"tokens": {"<s>": {"source": {"kind": "model_token", "model": "one"}}}}')"
    refused 65 'force: expected true or false' "$(linear '"tokenizer": {"tokens": {"<s>": {"source": "one", "force": 2}}}')"
    refused 65 'pad_to_multiple_of: expected a number of tokens' "$(linear '"tokenizer": {"pad_to_multiple_of": 0}')"
    refused 65 'rectify_embed: expected true or false' "$(linear '"rectify_embed": 7')"
    # an end of text that would be cut off
    cp -rL more ends
    sed -i 's/"eos_token": "<.s>"/"eos_token": "<|more|>"/' ends/tokenizer_config.json
    sed -i 's/"eos_token_id": 1/"eos_token_id": 274/' ends/config.json
    zt-convert -q ends ends.gguf
    [ "$(meta tokenizer.ggml.eos_token_id ends.gguf)" = 274 ]
    refused 65 "'tokenizer.ggml.eos_token_id' is 274, but the embeddings are cut to 273 rows" \
        '{"merge_method": "linear", "rectify_embed": true, "parameters": {"weight": 1}, "models": [{"model": "ends.gguf"}, {"model": "base"}]}'
    # another kind of tokenizer
    "$tests/mkmodel" --arch gemma3 --ctx 64 spm.gguf
    refused 65 "kind 'llama', but that of base is 'gpt2': use zt-dna transplant first" \
        "$(linear '"tokenizer": {"source": "union"}' | sed 's/"model": "two"/"model": "spm.gguf"/')"
}
