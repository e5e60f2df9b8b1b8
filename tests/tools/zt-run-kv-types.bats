#!/usr/bin/env bats
# zt-run --kv and --kv-values: quantized KV caches have the same bits in any order of work, in every mode, saved and loaded.

load ../common/helper

setup_file() {
    make_models
    cd "$BATS_FILE_TMPDIR"
    "$tests/mkmodel" --arch llama --ctx 512 --width 128 --heads 4 --kv-heads 2 --head 32 heads32.gguf
    "$tests/mkmodel" --arch gemma3 --ctx 512 --heads 4 --kv-heads 1 --head 96 heads96.gguf
    for i in {1..40}; do printf 'hello on the she in there %d ' $i; done >long
    head -c 900 long >prompt
    for i in 1 2 3 4 5; do
        printf '{"prompt":"%s tail %d","n":9,"seed":%d,"temp":%s}\n' "$(head -c 300 prompt)" $((i % 4)) $i "$((i % 2))"
    done >requests
}

setup() {
    in_own_folder
    cp "$BATS_FILE_TMPDIR"/{prompt,requests,heads32.gguf,heads96.gguf} .
}

pairs=("q8_0" "q4_0" "iq4_nl --kv-values q5_1" "q5_0 --kv-values f16" "f16 --kv-values q4_1" "f32 --kv-values q8_0")

# text OPTION... : the text of the prompt
text() { zt-run -q -m "${model:-heads32.gguf}" --raw -n 24 --seed 3 --ignore-eos -i prompt "$@"; }
without_times() { sed 's/"[a-z_]*_s":[0-9.e-]*//g; s/"model":"[^"]*"//'; }

@test "the bits of logits do not depend on threads, chunks, instruction sets and other texts" {
    for model in heads32.gguf heads96.gguf; do
        for kv in "${pairs[@]}"; do
            zt-run -q -m $model --raw -i prompt -n 0 --all-logits -f --logits want.npy --kv $kv
            for how in "-t 1" "-t 2 --chunk 1" "-t 2 --chunk 7" "--isa scalar --chunk 64"; do
                zt-run -q -m $model --raw -i prompt -n 0 --all-logits -f --logits got.npy --kv $kv $how
                cmp want.npy got.npy
            done
            zt-run -q -m $model --raw -i prompt -n 0 --all-logits -f --logits other.npy
            run ! cmp -s want.npy other.npy
        done
    done
}

@test "the same text with drafts, a session, a KV store, in a batch and without a cache" {
    for kv in "${pairs[@]}"; do
        text --kv $kv >want
        cmp want <(text --kv $kv --speculate)
        cmp want <(text --kv $kv --kv-store store)
        cmp want <(text --kv $kv --kv-store store)
        cmp want <(text --kv $kv --no-kv-cache)
        rm -f s
        text --kv $kv --session s >/dev/null
        zt-run -q -m heads32.gguf --raw -n 9 --temp 0 --ignore-eos -p 'hello on' --session s --kv $kv >continued
        rm -f s
        text --kv $kv --session s --chunk 5 -t 1 >/dev/null
        cmp continued <(zt-run -q -m heads32.gguf --raw -n 9 --temp 0 --ignore-eos -p 'hello on' --session s --kv $kv)
        zt-run -q -m heads32.gguf --raw --jsonl -i requests --kv $kv | without_times >batch
        cmp batch <(zt-run -q -m heads32.gguf --raw --jsonl -i requests --kv $kv --chunk 3 -t 1 | without_times)
        while read -r line; do
            echo "$line" | zt-run -q -m heads32.gguf --raw --jsonl --kv $kv | without_times
        done <requests | diff - batch
    done
}

@test "a session, a block of the store and a receipt of other types are not taken" {
    text --kv q8_0 --session s >/dev/null
    for other in "--kv q4_0" "--kv q8_0 --kv-values q4_0" ""; do
        cp s other
        run --separate-stderr zt-run -m heads32.gguf --raw -n 2 -p hello $other --session other
        [[ $stderr == *'session ignored'* ]]
    done
    text --kv q8_0 --kv-store store >/dev/null
    zt-run -v -m heads32.gguf --raw -n 24 --seed 3 --ignore-eos -i prompt --kv q8_0 --kv-values q5_0 --kv-store store 2>err >/dev/null
    grep -q ' 0 blocks read' err
    text --kv q8_0 --kv-values q4_0 --receipt r.json >out
    grep -q '"kv":"q8_0"' r.json
    grep -q '"kv_values":"q4_0"' r.json
    zt-run -q -m heads32.gguf --verify r.json
    sed 's/"kv_values":"q4_0"/"kv_values":"q6_k"/' r.json >bad.json
    run -65 --separate-stderr zt-run -m heads32.gguf --verify bad.json
}

@test "the memory of a cache is that of its types" {
    cells() { zt-run -m heads32.gguf --dry-run -c 512 "$@" --format tsv | awk '$1 == "kv" { print $2 }'; }
    wide=$(cells)
    [ $(($(cells --kv q8_0) * 64)) -eq $((wide * 34)) ]
    [ $(($(cells --kv q4_0) * 64)) -eq $((wide * 18)) ]
    [ $(($(cells --kv q8_0 --kv-values iq4_nl) * 128)) -eq $((wide * 52)) ]
    [ $(($(cells --kv-values q5_1) * 128)) -eq $((wide * 88)) ]
}

@test "what has no such cache says so" {
    "$tests/mkmodel" --arch llama --ctx 64 --heads 4 --head 24 heads24.gguf
    run -69 --separate-stderr zt-run -m heads24.gguf --raw -p hello -n 2 --kv q8_0
    [[ $stderr == *'layer 0 has 24'* ]]
    run -69 --separate-stderr zt-run -m heads24.gguf --raw -p hello -n 2 --kv-values q4_0
    zt-run -q -m heads24.gguf --raw -p hello -n 2 --kv-values f32 >out
    "$tests/mkmodel" --arch deepseek2 --ctx 64 latent.gguf
    run -69 --separate-stderr zt-run -m latent.gguf --raw -p hello -n 2 --kv q8_0
    [[ $stderr == *'latent attention'* ]]
}

@test "the reference engine computes with the same quantized rows" {
    zt-run -q -m heads32.gguf --raw -i prompt -n 0 --logits a.npy --exact --kv q8_0
    zt-run -q -m heads32.gguf --raw -i prompt -n 0 --logits b.npy --exact --kv q8_0 --engine ref
    perl -e 'sub load { open F, "<:raw", shift; local $/; unpack "f<*", substr(<F>, 128) }
             @a = load("a.npy"); @b = load("b.npy"); $e = $s = 0;
             for (0..$#a) { $e += ($a[$_] - $b[$_]) ** 2; $s += $b[$_] ** 2 }
             exit !(@a > 9 && $s > 0 && $e / $s < 1e-4)'
}

@test "a program has its caches' types in its text" {
    zt-trace record --forward -m heads32.gguf -c 512 --kv q8_0 >forward.zt
    grep -q 'state kc0: q8_0\[ctx' forward.zt
    grep -q hadamard forward.zt
    zt-run -q -m heads32.gguf --raw -i prompt -n 0 --logits a.npy --kv q8_0
    zt-run -q -m heads32.gguf --raw -i prompt -n 0 --logits b.npy --program forward.zt
    cmp a.npy b.npy
}

# Square of the difference of two files of logits by the square of the second.
off_by() {
    perl -e 'sub load { open F, "<:raw", shift or die; local $/; unpack "f<*", substr(<F>, 128) }
             @a = load(shift); @b = load(shift); $e = $s = 0;
             for (0..$#a) { $e += ($a[$_] - $b[$_]) ** 2; $s += $b[$_] ** 2 }
             die if @a < 9 || @a != @b || $s == 0; print $e / $s' "$@"
}

@test "keys of blocks take half of what the gains of norms of q and k have: the same products, and a smaller error" {
    # gains that grow by a fifth from column to column, so that a few columns decide the scales
    zt-trace record --forward --exact -m heads96.gguf -c 512 --kv q4_0 |
        perl -ne 's/ blk\.(\d+)\.attn_k_norm\b/ wide$1/ if /^[kq][lu]_|^kn/; print;
                  print "sums$1 = cumsum blk.$1.attn_k_norm\nslow$1 = scale sums$1 by=0.2\nfast$1 = exp slow$1\n",
                        "wide$1 = scale fast$1 by=1e-8\n" if /^data +blk\.(\d+)\.attn_k_norm:/' >balanced.zt
    sed -E 's/^qn([0-9]+) = rms_norm q[0-9]+ qb[0-9]+/qn\1 = rms_norm q\1 blk.\1.attn_q_norm/
            s/^kn([0-9]+) = rms_norm k[0-9]+ kb[0-9]+/kn\1 = rms_norm k\1 wide\1/' balanced.zt >plain.zt
    run ! cmp -s balanced.zt plain.zt
    for name in balanced plain; do
        sed 's/^\(state .*\): q4_0/\1: f32/' $name.zt >$name-f32.zt
        sed 's/^\(state vc.*\): q4_0/\1: f32/' $name.zt >$name-keys.zt
        for caches in f32 keys; do
            zt-run -q -m heads96.gguf --raw -i prompt -n 0 --all-logits --program $name-$caches.zt --logits $name-$caches.npy
        done
    done
    perl -e 'exit !($ARGV[0] < 1e-8)' "$(off_by balanced-f32.npy plain-f32.npy)"
    perl -e 'exit !($ARGV[0] < 0.5 * $ARGV[1])' "$(off_by balanced-keys.npy plain-f32.npy)" "$(off_by plain-keys.npy plain-f32.npy)"
}

@test "gains are balanced where keys have blocks and norms have gains, and nowhere else" {
    for kv in f16 f32; do
        zt-trace record --forward -m heads96.gguf -c 512 --kv $kv >forward.zt
        run ! grep -q '^kb0 = ' forward.zt
    done
    zt-trace record --forward -m heads32.gguf -c 512 --kv q4_0 >forward.zt
    run ! grep -q '^kb0 = ' forward.zt
    zt-trace record --forward -m heads96.gguf -c 512 --kv q8_0 >forward.zt
    grep -q '^kn0 = rms_norm k0 kb0' forward.zt
    zt-trace compile --bind n=1,m=1,ctx=512 forward.zt >plan.zt
    run ! grep -q '^kb0 = ' plan.zt # computed once
}
