#!/usr/bin/env bats
# zt-quant: types that options name for some tensors: --tensor-type-file, --token-embedding-type, --output-tensor-type.

load ../common/helper

setup_file() {
    tied=$BATS_FILE_TMPDIR/tied.gguf untied=$BATS_FILE_TMPDIR/untied.gguf
    "$tests/mkmodel" --type f16 --layers 2 "$tied"
    "$tests/mkmodel" --type f16 --layers 2 --untied "$untied"
    export tied untied
}

setup() {
    cd "$BATS_TEST_TMPDIR" || exit
    ln -sf "$untied" model.gguf
}

# Types of the tensors that are named, by --dry-run of q4_0 and the options.
types() { # MODEL NAMES OPTION...
    local model=$1 names=$2
    shift 2
    zt-quant -q --type q4_0 --dry-run "$@" "$model" >plan
    for name in $names; do awk -F '\t' -v row="$name.weight" '$1 == row {printf "%s ", $4}' plan; done
}

@test "--tensor-type-file: the first line that is found in a name wins, --tensor-type comes before" {
    printf '%s\r\n' '# a comment' '' 'blk\.1\..*attn_v=Q8_0 # of one layer' 'attn_[vk]=q5_1' '  ^output\.weight$=q5_0 ffn_(up|gate)=q4_1' \
        'attn=q5_0' >types.txt
    names='blk.1.attn_v blk.0.attn_v blk.0.attn_k blk.0.attn_q blk.1.ffn_up blk.1.ffn_down output'
    [ "$(types model.gguf "$names" --tensor-type-file types.txt)" = 'q8_0 q5_1 q5_1 q5_0 q4_1 q4_0 q5_0 ' ]
    [ "$(types model.gguf "$names" --tensor-type-file types.txt --tensor-type 'blk.*attn_v*=f16')" = 'f16 f16 q5_1 q5_0 q4_1 q4_0 q5_0 ' ]
    zt-quant -q --type q4_0 --tensor-type-file - model.gguf out.gguf <types.txt
    zt-convert --list out.gguf >list
    grep -q $'^blk.1.attn_v.weight\tq8_0' list
    zt-convert --meta out.gguf | grep -q -- '--tensor-type-file -'
}

@test "--tensor-type-file: a type is the type, also where a mix has its name in capitals" {
    "$tests/mkmodel" --type f16 --width 256 --head 64 --layers 1 wide.gguf
    for name in iq3_s IQ3_S q4_K; do
        printf 'attn_q=%s\n' "$name" >types.txt
        [ "$(types wide.gguf blk.0.attn_q --tensor-type-file types.txt)" = "${name,,} " ]
    done
}

@test "--tensor-type-file: what is wrong is told with file and line, what matches nothing is warned of" {
    while IFS='|' read -r line message; do
        printf '\n%b\n' "$line" >types.txt
        run --separate-stderr zt-quant --type q4_0 --tensor-type-file types.txt model.gguf out.gguf
        [ "$status" -eq 65 ] && one_message zt-quant && [[ $stderr == *"$message"* ]] && [ ! -e out.gguf ]
    done <<'END'
attn_q|types.txt:2: 'attn_q' is not REGEX=TYPE
=q8_0|types.txt:2: '=q8_0' is not REGEX=TYPE
# all\nattn_q=|types.txt:3: 'attn_q=' is not REGEX=TYPE
attn_q=q4_kk|types.txt:2: unknown type 'q4_kk' (did you mean 'q4_k_m'?)
attn_(q=q8_0|types.txt:2: 'attn_(q': missing closing parenthesis
END
    printf 'attn_q=q8_0\0' >types.txt
    run -65 zt-quant --type q4_0 --tensor-type-file types.txt model.gguf out.gguf
    printf 'attn_q=ternary\n' >types.txt
    run -64 zt-quant --type q4_0 --tensor-type-file types.txt model.gguf out.gguf
    [[ $output == *"types.txt:1: 'attn_q' has a type for networks"* ]]
    run -66 zt-quant --type q4_0 --tensor-type-file none.txt model.gguf out.gguf
    run -64 zt-quant --type q4_0 --tensor-type-file - - out.gguf <model.gguf
    printf '^nothing=q8_0\nattn_v=q8_0\n_norm=q8_0\n' >types.txt
    run -0 --separate-stderr zt-quant --type q4_0 --tensor-type-file types.txt --dry-run model.gguf
    [[ $stderr == *"types.txt:1: '^nothing' matches no quantized tensor"*"types.txt:3: '_norm' matches no"* ]]
    [[ $stderr != *attn_v* ]]
}

@test "--token-embedding-type and --output-tensor-type come before patterns; tied embeddings have one of them" {
    printf '.=q5_1\n' >types.txt
    both=(--token-embedding-type q8_0 --output-tensor-type q5_0)
    [ "$(types "$untied" 'token_embd output blk.0.attn_q' "${both[@]}")" = 'q8_0 q5_0 q4_0 ' ]
    [ "$(types "$untied" 'token_embd output blk.0.attn_q' "${both[@]}" --tensor-type-file types.txt)" = 'q8_0 q5_0 q5_1 ' ]
    [ "$(types "$tied" token_embd --output-tensor-type q5_0)" = 'q5_0 ' ]
    [ "$(types "$tied" token_embd --output-tensor-type q5_0 --tensor-type 'token*=q8_0')" = 'q8_0 ' ]
    run -0 --separate-stderr zt-quant --type q4_0 "${both[@]}" --dry-run "$tied"
    [[ $stderr == *'--output-tensor-type is not used: the output is the token embedding'* ]]
    zt-quant -q --target-size 250K "${both[@]}" --dry-run "$untied" >plan
    [ "$(awk -F '\t' '$1 == "output.weight" {print $4}' plan)" = q5_0 ]
    zt-convert -q --drop token_embd.weight --drop output.weight "$untied" part.gguf
    run -64 zt-quant --type q4_0 --token-embedding-type q8_0 part.gguf out.gguf
    run -64 zt-quant --type q4_0 --output-tensor-type q8_0 part.gguf out.gguf
    run -64 zt-quant --type q4_0 --output-tensor-type int9 model.gguf out.gguf
    run -64 zt-quant --type q4_0 --token-embedding-type ternary model.gguf out.gguf
    [ ! -e out.gguf ]
}
