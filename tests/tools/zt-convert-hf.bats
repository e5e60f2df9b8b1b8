#!/usr/bin/env bats
# Hugging Face directories through zt-convert, both ways: bytes, ids and exit codes. What is in them is
# for tests/llm/hf_gguf.c and tests/llm/hf_export.c.

load ../common/helper

whole=$tests/../whole

setup() {
    cd "$BATS_TEST_TMPDIR" || exit
    mkdir tmp
    export TMPDIR=$PWD/tmp
}

ids() { # model
    zt-run -m "$1" --raw -p 'Copyright (C) 1991' -n 8 --temp 0 --exact --ids
}

@test "there and back again: the same bytes of GGUF" {
    for dir in "$whole"/*/; do
        name=$(basename "$dir")
        zt-convert --no-history "$dir" "$name.gguf"
        zt-convert --to hf "$name.gguf" "$name"
        zt-convert --no-history "$name/" again.gguf -f
        cmp "$name.gguf" again.gguf
        [ "$(zt-convert --hash "$dir")" = "$(zt-convert --hash "$name")" ]
    done
    [ -z "$(ls -A tmp)" ]
}

@test "from a pipe and into one: the text of the directory" {
    for name in llama3 qwen3 llama2 gpt2; do
        want=$(ids "$whole/$name")
        [ "$(wc -w <<<"$want")" -eq 8 ]
        [ "$(zt-convert "$whole/$name" - | ids -)" = "$want" ]
        zt-convert "$whole/$name" - | zt-convert - "$name/"
        [ "$(ids "$name")" = "$want" ]
        mkfifo "$name.pipe"
        zt-convert "$name/" - >"$name.pipe" &
        zt-convert --to hf "$name.pipe" "again-$name"
        cmp "$name/model.safetensors" "again-$name/model.safetensors"
        cmp "$name/tokenizer.json" "again-$name/tokenizer.json"
    done
    [ -z "$(ls -A tmp)" ]
}

@test "through safetensors with metadata, and back to a directory" {
    zt-convert "$whole/llama3" m.safetensors
    [ "$(ids m.safetensors)" = "$(ids "$whole/llama3")" ]
    zt-convert m.safetensors back/
    [ "$(ids back)" = "$(ids "$whole/llama3")" ]
}

@test "quantized weights: their values, in the dtype that is asked for" {
    zt-convert --dtype f32 "$whole/llama3" f.gguf
    zt-quant --type q8_0 f.gguf q.gguf
    zt-convert --to hf --dtype f32 q.gguf f32
    [ "$(ids f32)" = "$(ids q.gguf)" ]
    zt-convert q.gguf f16/
    zt-convert --to hf --dtype bf16 q.gguf bf16
    grep -q '"torch_dtype": "float16"' f16/config.json
    grep -q '"torch_dtype": "bfloat16"' bf16/config.json
    [ "$(zt-convert --list --format tsv bf16/model.safetensors | awk '$1 ~ /q_proj/ {print $2}' | sort -u)" = bf16 ]
    [ "$(zt-convert --list --format tsv f16/model.safetensors | awk '$1 ~ /q_proj/ {print $2}' | sort -u)" = f16 ]
}

@test "--dtype of a directory is of matrices: vectors stay f32" {
    zt-convert --dtype f16 "$whole/gpt2" m.gguf
    zt-convert --list --format tsv m.gguf >list
    [ "$(awk '$1 ~ /norm|bias|position/ {print $2}' list | sort -u)" = f32 ]
    [ "$(awk '$1 ~ /attn_qkv.weight|ffn|token_embd.weight/ && $1 !~ /norm|bias/ {print $2}' list | sort -u)" = f16 ]
    [ "$(zt-convert --meta --format tsv m.gguf | awk '$1 == "general.file_type" {print $3}')" = 1 ]
    [ "$(wc -w <<<"$(ids m.gguf)")" -eq 8 ]
}

@test "a directory is whole, or as it was" {
    zt-convert "$whole/gpt2" m.gguf
    zt-convert m.gguf out/
    run -73 --separate-stderr zt-convert --to hf m.gguf out
    one_message zt-convert
    run -64 --separate-stderr zt-convert --to hf -f m.gguf out
    run -73 --separate-stderr zt-convert --to hf m.gguf no/such/place
    one_message zt-convert
    head -c 20000 m.gguf >cut.gguf
    run -65 --separate-stderr zt-convert --to hf cut.gguf cut
    one_message zt-convert
    run -64 --separate-stderr zt-convert --to hf --dtype q8_0 m.gguf odd
    [ "$(ls -A | grep -v ^separate-stderr | tr '\n' ' ')" = "cut.gguf m.gguf out tmp " ]
}

@test "an architecture that is not known passes; there is no way back" {
    mkdir dino
    cp "$whole/llama3/model.safetensors" "$whole/llama3/tokenizer.json" dino
    echo '{"model_type":"dinosaur","teeth":60}' >dino/config.json
    zt-convert dino m.gguf
    [ "$(zt-convert --list --format tsv m.gguf | grep -c model.layers.0.self_attn)" -eq 4 ]
    [ "$(zt-convert --meta --format tsv m.gguf | grep -c 'huggingface.config.json.*teeth')" -eq 1 ]
    [ "$(zt-run -m m.gguf --tokenize -p 'Copyright')" = "$(zt-run -m "$whole/llama3" --tokenize -p 'Copyright')" ]
    run -69 --separate-stderr zt-convert --to hf m.gguf back
    one_message zt-convert
    [[ $stderr == *dinosaur* ]]
}

@test "what is not there is 66" {
    mkdir empty
    run -66 --separate-stderr zt-convert empty m.gguf
    one_message zt-convert
    run -66 --separate-stderr zt-convert nowhere/ m.gguf
    one_message zt-convert
    [ ! -e m.gguf ]
}

@test "BPE without merges: an empty list in the GGUF, and the directory's ids" {
    mkdir m
    cp "$whole/llama3"/{config.json,model.safetensors} m
    perl -MJSON::PP -e '
        my @bytes = map { chr } 33 .. 126; # printable bytes that stand for themselves
        my $id = 0;
        my %vocab = map { $_ => $id++ } "<s>", @bytes, chr(0x120);
        my $level = {type => "ByteLevel", add_prefix_space => JSON::PP::false, trim_offsets => JSON::PP::true, use_regex => JSON::PP::true};
        print JSON::PP->new->utf8->encode({version => "1.0", added_tokens => [], normalizer => undef,
            pre_tokenizer => $level, post_processor => undef, decoder => $level,
            model => {type => "BPE", vocab => \%vocab, merges => []}})' >m/tokenizer.json
    zt-convert -q m o.gguf
    zt-convert --meta o.gguf | grep -q '^tokenizer.ggml.merges'
    [ "$(zt-run -m o.gguf --tokenize -p 'ab c!')" = "$(zt-run -m m --tokenize -p 'ab c!')" ]
    [ "$(zt-run -m o.gguf --tokenize -p 'ab c!' | wc -w)" -ge 5 ]
}

@test "a token without a row in the embedding: 65 that names it, run or converted; a control token is left out" {
    mkdir m
    cp "$whole/llama3"/{config.json,model.safetensors,tokenizer_config.json} m
    # JSON's added tokens, one more than the embedding has rows
    beyond() { # special
        perl -MJSON::PP -e '
            local $/; my $j = JSON::PP->new->utf8->decode(scalar <STDIN>);
            push @{$j->{added_tokens}}, {id => 4000, content => "<dom1>", single_word => JSON::PP::false, lstrip => JSON::PP::false,
                rstrip => JSON::PP::false, normalized => JSON::PP::false, special => $ARGV[0] ? JSON::PP::true : JSON::PP::false};
            print JSON::PP->new->utf8->encode($j)' "$1" <"$whole/llama3/tokenizer.json" >m/tokenizer.json
    }
    beyond 0
    for command in "zt-run -m m --raw -p x -n 1" "zt-convert m o.gguf"; do
        run -65 --separate-stderr $command
        one_message "${command%% *}"
        [[ $stderr == *"token 4000, '<dom1>', has no row in the embedding"* ]]
    done
    [ ! -e o.gguf ]
    beyond 1
    run -0 --separate-stderr zt-convert m o.gguf
    [[ $stderr == *"token 4000, '<dom1>', is omitted"* ]]
    [ "$(ids o.gguf)" = "$(ids m)" ]
}

@test "weights in FP8, of compressed-tensors, GPTQ and AWQ: the GGUF and the directory are the same model" {
    quantized=$tests/../quantized
    for name in fp8-block fp8-experts ct-fp8-channel ct-pack-4-zeros ct-nvfp4 ct-mxfp4 gptq-8-v2 awq-4; do
        mkdir "$name"
        cp "$quantized/$name"/* "$tests/../ggufs/dress/qwen2"/* "$name/"
        zt-convert "$name" "$name.gguf" 2>"$name.err"
        [ "$(zt-convert --hash "$name" 2>/dev/null)" = "$(zt-convert --hash "$name.gguf")" ]
        want=$(zt-run -m "$name.gguf" -p 'ab cd' -n 8 --temp 0 --ids)
        [ -n "$want" ]
        [ "$(zt-run -m "$name" -p 'ab cd' -n 8 --temp 0 --ids 2>/dev/null)" = "$want" ]
    done
    grep -q 'activations are not quantized here' fp8-block.err
    [ "$(wc -l <ct-fp8-channel.err)" = 1 ]
    [ ! -s gptq-8-v2.err ]
    zt-convert --list ct-mxfp4.gguf | grep 'blk.0.attn_q.weight' | grep -q mxfp4
    zt-quant -f --type q8_0 awq-4.gguf small.gguf
}

@test "quantized weights that are not whole: exit 65 and one line" {
    mkdir bad
    cp "$tests/../quantized/gptq-4"/* bad/
    sed -i 's/"group_size": 16/"group_size": 0/' bad/config.json
    run --separate-stderr zt-convert bad bad.gguf
    [ "$status" = 65 ]
    [ "${#stderr_lines[@]}" = 1 ]
    [[ $stderr = *"'group_size' is 0"* ]]
    [ ! -e bad.gguf ]
    sed -i 's/"gptq"/"hqq"/' bad/config.json
    run --separate-stderr zt-convert bad bad.gguf
    [ "$status" = 69 ]
    [[ $stderr = *"quant_method 'hqq'"* ]]
}
