#!/usr/bin/env bats
# Every kind of output: killed at each call that writes, each of these calls failing, and each allocation refused. A target is old or new, and
# whole. All calls and allocations with ZT_LONG; else the first ones.

load ../common/helper
load ../common/faults

setup_file() {
    cd "$BATS_FILE_TMPDIR" || exit
    for made in model:0 other:1 third:2; do "$tests/mkmodel" --arch llama --layers 1 --ctx 64 --seed "${made#*:}" "${made%:*}.gguf"; done
    "$tests/mkmodel" --type f32 --width 256 --ffn 256 --head 64 --layers 1 --untied blocks.gguf
    "$tests/mkmodel" --arch gemma3 --layers 1 --ctx 64 --seed 3 donor.gguf
    "$tests/mkmodel" --arch qwen35 --ctx 64 --next 1 head.gguf
    for i in $(seq 40); do echo "hello on the she in there $i"; done >text
    zt-quant -q -f --make-imatrix -m blocks.gguf -i text -c 32 -o importances.gguf
    cp "$repo/tests/sign/reference/ed25519.pem" key.pem
    for method in multislerp arcee_fusion ram; do
        printf '%s\n' "merge_method: $method" 'models:' '  - {model: other.gguf, parameters: {weight: 0.5}}' \
            '  - {model: third.gguf, parameters: {weight: 0.5}}' 'base_model: model.gguf' >$method.yaml
    done
    sed -i '/third/d' arcee_fusion.yaml
    sed -i 's/, parameters.*/}/' arcee_fusion.yaml ram.yaml
    echo '{"base_model": "model.gguf", "gate_mode": "random", "experts": [{"source_model": "model.gguf"}, {"source_model": "other.gguf"}]}' >moe.json
    echo 'blk\..*_down=q8_0' >types
    perl -e 'srand 4; for (1 .. 24) { my @x = map { sprintf "%.3f", rand } 1 .. 4; print join(",", @x, $x[0] > $x[1] ? 1 : 0), "\n" }' >data.csv
}

setup() {
    mkdir "$BATS_TEST_TMPDIR/work"
    cd "$BATS_TEST_TMPDIR/work" || exit
    ln -s "$BATS_FILE_TMPDIR"/* .
    make_refusing
    generate='zt-run -q -t 1 -m model.gguf --raw -p hello -n 20'
    fit='zt-train -q -t 1 --new sequential --set dModel=4 --set numClasses=2 -i data.csv --loss cross_entropy --epochs 1 --batch 8 --seed 3'
    list >commands
    most=${ZT_LONG:+1000000}
    most=${most:-2} # of each call
}

# "TARGET|COMMAND": each makes the target anew, the same bytes each time.
list() {
    cat <<END
t|$generate -f -o t
t|$generate -f --receipt t
t|$generate -f --draft other.gguf --receipt t
t|zt-run -q -t 1 -m head.gguf --raw -p hello -n 20 -f --draft mtp --draft-tokens 3 --receipt t
t|zt-run -q -t 1 -m model.gguf --raw -p hello -n 0 -f --logits t
t|zt-quant -q -t 1 -f --no-history --type iq2_xxs --imatrix importances.gguf blocks.gguf t
t|zt-quant -q -t 1 -f --no-history --type f16 --tensor-type-file types --token-embedding-type f32 model.gguf t
t|zt-quant -q -t 1 -f --make-imatrix -m blocks.gguf -i text -c 32 -o t
t|zt-convert -q -f --sign key.pem -o t model.gguf
t|zt-dna merge -q -t 1 -f --config multislerp.yaml -o t
t|zt-dna merge -q -t 1 -f --config arcee_fusion.yaml -o t
t|zt-dna merge -q -t 1 -f --config ram.yaml -o t
t|zt-dna moe -q -f moe.json -o t
t|zt-dna transplant -q -t 1 -f -k 4 model.gguf donor.gguf -o t
t|$fit -f --receipt t -o network
t|$fit -f --plot t -o network
t|zt-trace record -q -t 1 -m model.gguf -p hello -f --values t
END
}

may_trace() {
    command -v strace >/dev/null || skip "no strace"
    strace -qq -o trace true || skip "strace may not trace here"
}

# What the target is before and after the command: `old`, and `new`, which the command makes over the old one.
make_new() {
    echo old >old
    cp old "$target"
    $command >/dev/null
    mv "$target" new
}

@test "killed at each call that writes" {
    may_trace
    kills=0
    most_kills=$most
    while IFS='|' read -r target command; do
        make_new
        before=$kills
        killed_everywhere old new "$target" $command >/dev/null || { echo "$command"; false; }
        [ $kills -gt $before ] || { echo "never killed: $command"; false; }
    done <commands
}

@test "each call that writes fails for lack of room" {
    may_trace
    while IFS='|' read -r target command; do
        make_new
        failures=0 # without a sandbox, which takes an injected call for one that it does not know
        cp old "$target"
        before=$(ls -A)
        for call in write pwrite64 copy_file_range fsync fdatasync linkat rename,renameat,renameat2 ftruncate fallocate; do
            for ((n = 1; n <= most; n++)); do
                cp old "$target"
                code=0
                traced -qq -o trace -e trace="$call" -e inject="$call:error=ENOSPC:when=$n" $command --sandbox off >out 2>err || code=$?
                grep -q INJECTED trace || { rm out err; break; }
                cmp -s "$target" old || cmp -s "$target" new || { echo "$call $n: neither old nor new: $command"; false; }
                if [ $code -eq 0 ]; then
                    cmp -s "$target" new || { echo "$call $n: 0, and the output is old: $command"; false; }
                else
                    fails_with 74 "${command%% *}" || fails_with 73 "${command%% *}" || { echo "$call $n: $code $(cat err): $command"; false; }
                    failures=$((failures + 1))
                fi
                rm -f out err
                [ "$(ls -A | grep -vx trace)" = "$(grep -vx trace <<<"$before")" ] || { echo "$call $n: something is left: $(ls -A): $command"; false; }
            done
        done
        [ $failures -ge 1 ] || { echo "nothing failed: $command"; false; }
    done <commands
}

# What is whole may stay: the network behind its receipt, the values before the program.
@test "each allocation refused" {
    sed 's/^[^|]*|//; s/ -f / /' commands | grep -v '^zt-dna moe' >new # zt-dna-faults.bats has that one
    may_stay='network' refusals=6 refuse_allocations < <(grep -v '^zt-trace' new)
    may_stay='t' refusals=6 refuse_allocations < <(grep '^zt-trace' new)
}
