#!/usr/bin/env bats
# zt-run --lora: the bits of the merged model, in every mode and type; what does not fit is one line.

load ../common/helper

setup_file() {
    make_models
    cd "$BATS_FILE_TMPDIR" || exit
    "$tests/mkmodel" --arch llama --ctx 256 --seed 1 other.gguf
    zt-convert -q --dtype f32 tiny.gguf f32.gguf
    zt-convert -q --dtype f32 other.gguf other32.gguf
    zt-dna lora -q --rank 4 f32.gguf other32.gguf -o lora.gguf
    zt-dna lora -q --rank 4 f32.gguf other32.gguf -o peft/
    zt-dna lora -q --rank 2 --seed 5 other32.gguf f32.gguf -o back.gguf
}

setup() {
    in_own_folder
    ln -s "$BATS_FILE_TMPDIR"/{f32.gguf,lora.gguf,back.gguf,peft,other.gguf} .
    set=$(cd "${ZT_TESTS:-build/tests}/.." && pwd)/lora
    ln -s "$set" set
}

# logits OUT ARGUMENTS...: of every token of a prompt.
logits() {
    local out=$1
    shift
    zt-run --raw -p 'The quick brown fox' -n 0 --all-logits --logits "$out" -f "$@"
}

@test "--lora gives the bits of the merged model, for every type of the base" {
    for type in f32 f16 bf16 q8_0 q5_1 q4_0 q4_1 iq4_nl; do
        zt-quant -q -f --type $type f32.gguf base.gguf
        zt-dna merge base.gguf+lora.gguf=0.5+back.gguf -f -o merged.gguf
        diff <(zt-convert --list base.gguf | cut -f1,2) <(zt-convert --list merged.gguf | cut -f1,2)
        logits one.npy -m base.gguf --lora lora.gguf=0.5 --lora back.gguf
        logits two.npy -m merged.gguf
        logits plain.npy -m base.gguf
        cmp one.npy two.npy || { echo $type; false; }
        run ! cmp -s one.npy plain.npy
        logits three.npy -m base.gguf --lora lora.gguf=0.5 --lora back.gguf -t 3
        cmp one.npy three.npy
    done
}

@test "--lora on made models of other kinds: the bits of the merged model, and PEFT's tensors behind it" {
    for name in patterns dora conv1d conv1d_saved norms bias tied_head tied_saved tied_embedding tied_tokens grown ends weighted; do
        spec=$(sed 's|+|+set/|g; s|^bases|set/bases|' "set/$name/spec")
        base=${spec%%+*}
        args=()
        IFS=+ read -ra parts <<<"${spec#*+}"
        for part in "${parts[@]}"; do args+=(--lora "$part"); done
        zt-dna merge -q "$spec" -f -o merged.gguf
        zt-run --raw -p 'abcdz' -n 0 --logits one.npy -f -m "$base" "${args[@]}"
        zt-run --raw -p 'abcdz' -n 0 --logits two.npy -f -m merged.gguf
        zt-run --raw -p 'abcdz' -n 0 --logits plain.npy -f -m "$base"
        cmp one.npy two.npy || { echo "$name"; false; }
        run ! cmp -s one.npy plain.npy
    done
}

@test "--lora in every mode that runs a model; a directory as a GGUF; other engines" {
    zt-dna merge model.gguf+lora.gguf -o merged.gguf
    # without times, and what the model is called
    words() { sed -E 's/"(prompt|generate|load)_s": ?[0-9.e-]+//g; s/"model(_id)?": ?"[^"]*"//g; s/"lora":[^]]*],//'; }
    for args in '-n 6 --temp 0' '-n 6 --temp 1 --seed 3 --json' '--embed --format ndjson' '-n 6 --speculate --temp 0' '-n 4 --temp 0 --no-kv-cache'; do
        # shellcheck disable=SC2086
        diff <(zt-run -m model.gguf --lora lora.gguf -p hello $args | words) <(zt-run -m merged.gguf -p hello $args | words) ||
            { echo "$args"; false; }
    done
    zt-run -m model.gguf --lora lora.gguf=0.5 --json -p hello -n 1 | grep -F '"lora":["lora.gguf=0.5"]'
    echo '{"prompt": "hello", "n": 5, "temp": 0}' >in.jsonl
    texts() { sed -E 's/.*"ids": ?\[([^]]*)\].*/\1/'; }
    diff <(zt-run -m model.gguf --lora lora.gguf --jsonl -i in.jsonl | texts) <(zt-run -m merged.gguf --jsonl -i in.jsonl | texts)
    seq 400 >text
    diff <(zt-run -m model.gguf --lora lora.gguf --perplexity text) <(zt-run -m merged.gguf --perplexity text)
    logits one.npy -m f32.gguf --lora peft --engine ref
    zt-dna merge f32.gguf+peft -f -o merged32.gguf
    logits two.npy -m merged32.gguf --engine ref
    cmp one.npy two.npy
    zt-run -m model.gguf --lora lora.gguf --dry-run >dry
}

@test "--lora: a session and a plan of the model without it, or with another scale, are of another model" {
    zt-run -m model.gguf -p hello -n 2 --session s >text
    zt-run -m model.gguf --lora lora.gguf -p hello -n 2 --session with >text
    for args in '--lora lora.gguf --session s' '--session with' '--lora lora.gguf=0.5 --session with' '--lora back.gguf --session with'; do
        # shellcheck disable=SC2086
        run --separate-stderr zt-run -m model.gguf -p hello -n 2 $args
        echo "$args: $status $stderr"
        [ "$status" -eq 65 ] && one_message zt-run
    done
    zt-run -m model.gguf --lora lora.gguf=1 -p hello -n 2 --session with >text
}

@test "--lora: misuse and adapters that do not fit are one line" {
    while IFS='|' read -r code word args; do
        # shellcheck disable=SC2086
        run --separate-stderr zt-run -m model.gguf -p hi $args
        echo "zt-run $args: $status $stderr"
        [ "$status" -eq "$code" ] && one_message zt-run && [[ $stderr == *"$word"* ]] && [ -z "$output" ]
    done <<'END'
64|--lora|--tokenize --lora lora.gguf
64|--lora|--count --lora lora.gguf
66|none|--lora none
66|none|--lora none=2
64|'x'|--lora lora.gguf=x
64|'nan'|--lora lora.gguf=nan
66|none=x|--lora none=x
65|LoRA|--lora other.gguf
65|conv1d|--lora set/conv1d/a
65|q_proj|--lora lora.gguf --lora set/tied_head/a
END
    "$tests/mkmodel" --arch qwen2 --ctx 256 q.gguf
    run --separate-stderr zt-run -m q.gguf --lora lora.gguf -p hi
    [ "$status" -eq 65 ] && [[ $stderr == *"'llama'"*"'qwen2'"* ]] && one_message zt-run
}
