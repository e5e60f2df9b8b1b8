#!/usr/bin/env bats
# zt-run --kv-store: the same text from stored blocks in every mode, whatever happens to the directory. Kills at each system call
# and damage to each part of a block: tests/llm/kv_store.c.

load ../common/helper

setup_file() {
    make_models
    cd "$BATS_FILE_TMPDIR"
    "$tests/mkmodel" --arch llama --ctx 256 --seed 1 other.gguf
    for i in {1..60}; do printf 'hello on the she in there %d ' $i; done >long.txt
    for i in 1 2 3 4 5 6; do
        printf '{"prompt":"%s tail %d","n":9,"seed":%d,"temp":%s}\n' "$(head -c 300 long.txt)" $((i % 4)) $i "$((i % 2))"
    done >requests
    head -c 500 long.txt >prompt
    zt-run -q -m tiny.gguf --raw -n 40 --seed 3 -i prompt >want
    zt-run -q -m tiny.gguf --raw --jsonl -i requests | without_times >want.jsonl
}

setup() {
    in_own_folder
    cp "$BATS_FILE_TMPDIR"/{prompt,requests,want,want.jsonl} .
}

without_times() { sed 's/"[a-z_]*_s":[0-9.e-]*//g; s/"model":"[^"]*"//'; }
# text OPTION... : the text of the prompt with a store
text() { zt-run -q -m "${model:-model.gguf}" --raw -n 40 --seed 3 -i prompt --kv-store kv "$@"; }
# blocks OPTION... : how many blocks are read and how many are written
blocks() { zt-run -v -m "${model:-model.gguf}" --raw -n 40 --seed 3 -i prompt --kv-store kv "$@" 2>&1 >/dev/null | sed -n 's/.*kv: \([0-9]*\) blocks read, \([0-9]*\) written.*/\1 \2/p'; }

@test "the same text with an empty store and with a full one, and fewer tokens computed" {
    cmp want <(text)
    stored=$(find kv -name '*.kv' | wc -l)
    [ "$stored" -ge 3 ]
    cmp want <(text)
    cmp want <(text --chunk 1)
    cmp want <(text -t 2)
    cmp want <(text --speculate)
    zt-run -m model.gguf --raw -n 40 --seed 3 -i prompt --kv-store kv --stats 2>err >/dev/null
    grep -q 'KV store .* tokens    of the prompt reused' err
    [ "$(find kv -name '*.kv' | wc -l)" -eq "$stored" ]
    [ "$(find kv -name '*.model' | wc -l)" -le 1 ]
}

@test "what decides the bits decides the key" {
    text >text.1
    read -r read written <<<"$(blocks)"
    [ "$read" -gt 0 ] && [ "$written" -eq 0 ]
    for how in --exact "--kv f32" "--isa scalar" "--engine ref"; do
        read -r read written <<<"$(blocks $how)"
        [ "$read" -eq 0 ] && [ "$written" -gt 0 ]
        cmp <(zt-run -q -m model.gguf --raw -n 40 --seed 3 -i prompt $how) <(text $how)
    done
    model=$BATS_FILE_TMPDIR/other.gguf
    read -r read written <<<"$(blocks)"
    [ "$read" -eq 0 ] && [ "$written" -gt 0 ]
    cmp <(zt-run -q -m "$model" --raw -n 40 --seed 3 -i prompt) <(text)
}

@test "the same tensors in another container, and another context, have the same blocks" {
    text >text.1
    model=there.safetensors
    zt-convert -q model.gguf $model
    read -r read written <<<"$(blocks -c 255)"
    [ "$read" -gt 0 ] && [ "$written" -eq 0 ]
}

@test "an adapter is part of the key" {
    text >text.1
    zt-dna -q lora --rank 4 model.gguf "$BATS_FILE_TMPDIR/other.gguf" -o adapter.gguf
    read -r read written <<<"$(blocks --lora adapter.gguf)"
    [ "$read" -eq 0 ] && [ "$written" -gt 0 ]
    read -r read written <<<"$(blocks --lora adapter.gguf)"
    [ "$read" -gt 0 ] && [ "$written" -eq 0 ]
    [ "$(text --lora adapter.gguf)" = "$(zt-run -q -m model.gguf --raw -n 40 --seed 3 -i prompt --lora adapter.gguf)" ]
}

@test "--jsonl takes blocks of other runs, and leaves its own" {
    cmp want.jsonl <(zt-run -q -m model.gguf --raw --jsonl -i requests --kv-store kv | without_times)
    zt-run -v -m model.gguf --raw --jsonl -i requests --kv-store kv 2>err | without_times >got
    cmp want.jsonl got
    grep -q 'kv: [1-9][0-9]* blocks read, 0 written' err
    text >got
    cmp want got
    zt-run -v -m model.gguf --raw --jsonl -i requests --kv-store kv --kv-store-size 1MB --exact >/dev/null
    [ "$(find kv -type f ! -name lock -printf '%s\n' | perl -ne '$s += $_; END { print $s }')" -le 1000000 ]
}

@test "--serve takes blocks, and leaves its own" {
    command -v curl >/dev/null || skip "no curl"
    text >got
    zt-run -v -m model.gguf --serve unix:s --kv-store kv 2>err 3>&- &
    server=$!
    for _ in {1..600}; do curl -sf --unix-socket s http://localhost/health >/dev/null && break; kill -0 $server || skip "no server here"; sleep .1; done
    body=$(perl -MJSON::PP -e 'local $/; print encode_json({prompt => scalar <STDIN>, max_tokens => 9, temperature => 0})' <prompt)
    curl -sf --unix-socket s http://localhost/v1/completions -H 'Content-Type: application/json' -d "$body" >answer
    kill -TERM $server
    wait $server || true
    grep -q 'kv: [1-9][0-9]* blocks read' err
    [ "$(json_text '{choices}[0]{text}' <answer)" = "$(zt-run -q -m model.gguf --raw -n 9 --temp 0 -i prompt --json | json_text '{text}')" ]
}
json_text() { perl -CO -MJSON::PP -0777 -ne 'print decode_json($_)->'"$1"; }

# Requests that share a beginning of 544 tokens and more: one after the other, then four at once, then by a server that begins with a
# store that is full.
@test "--serve with recurrent layers resumes from stored states" {
    command -v curl >/dev/null || skip "no curl"
    "$tests/mkmodel" --arch qwen35 --seed 3 --ctx 1024 model.q
    for i in 1 2 3 4; do
        printf '%s tail %d' "$(head -c 1500 "$BATS_FILE_TMPDIR/long.txt")" "$i" >prompt.$i
        zt-run -q -m model.q --raw -n 9 --temp 0 -i prompt.$i --json | json_text '{text}' >want.$i
        perl -MJSON::PP -0777 -ne 'print encode_json({prompt => $_, max_tokens => 9, temperature => 0})' prompt.$i >body.$i
    done
    serve() {
        zt-run -v -m model.q --serve unix:s --kv-store kv 2>err 3>&- &
        server=$!
        for _ in {1..600}; do curl -sf --unix-socket s http://localhost/health >/dev/null && break; kill -0 $server || skip "no server here"; sleep .1; done
    }
    ask() { curl -sf --unix-socket s http://localhost/v1/completions -H 'Content-Type: application/json' -d "@body.$1" | json_text '{choices}[0]{text}' >got.$1; }
    end() {
        kill -TERM $server
        wait $server || true
        for i in 1 2 3 4; do cmp want.$i got.$i; done
        rm got.*
    }
    serve
    for i in 1 2 3 4; do ask $i; done
    end
    [ "$(find kv -name '*.state' | wc -l)" -ge 2 ]
    read -r read written <<<"$(sed -n 's/.*kv: \([0-9]*\) blocks read, \([0-9]*\) written.*/\1 \2/p' err)"
    [ "$read" -ge 17 ] && [ "$written" -ge 17 ]
    for store in empty full; do
        [ $store = full ] || rm -r kv
        serve
        asked=
        for i in 1 2 3 4; do
            ask $i &
            asked="$asked $!"
        done
        wait $asked
        end
    done
    [ "$(sed -n 's/.*kv: \([0-9]*\) blocks read.*/\1/p' err)" -ge 68 ] # 4 times 16 blocks and a state
}

@test "eight processes at once, with room for few blocks" {
    text >/dev/null
    size=$(find kv -name '*.kv' -printf '%s\n' -quit)
    rm -r kv
    for i in {1..8}; do
        if [ $((i % 2)) -eq 0 ]; then
            text --kv-store-size $((size * 6)) >got.$i 2>err.$i &
        else
            zt-run -q -m model.gguf --raw --jsonl -i requests --kv-store kv --kv-store-size $((size * 6)) 2>err.$i | without_times >got.$i &
        fi
    done
    wait
    for i in 2 4 6 8; do cmp want got.$i; done
    for i in 1 3 5 7; do cmp want.jsonl got.$i; done
    [ "$(cat err.*)" = "" ]
    [ "$(find kv -type f ! -name lock -printf '%s\n' | perl -ne '$s += $_; END { print $s }')" -le $((size * 6)) ]
    [ -z "$(find kv -name '.*tmp')" ]
}

@test "files that may not grow, and directories that may not be written: a warning, and the same text" {
    (ulimit -f 1 && text >got 2>err)
    cmp want got
    [ "$(cat err)" = "" ] # -q
    (ulimit -f 1 && zt-run -m model.gguf --raw -n 40 --seed 3 -i prompt --kv-store kv >got 2>err)
    cmp want got
    grep -q "^zt-run: kv: cannot write: .*: blocks are not stored" err
    [ "$(find kv -name '*.kv' | wc -l)" -eq 0 ]
    cmp want <(text)
    cmp want <(text)
    [ "$(id -u)" != 0 ] || return 0
    chmod a-w kv kv/lock
    cmp want <(text --exact)
    chmod u+w kv
}

@test "the digest of a model is kept while its file does not change" {
    model=own.gguf
    cp -L model.gguf $model
    sleep 2.1 # a file that changed just now may change again at the same time
    text >/dev/null
    [ "$(find kv -name '*.model' | wc -l)" -eq 1 ]
    read -r read written <<<"$(blocks)"
    [ "$read" -gt 0 ] && [ "$written" -eq 0 ]
    perl -e 'open my $f, "+<", shift or die; seek $f, -100, 2; read $f, my $b, 1; seek $f, -100, 2; print $f chr(ord($b) ^ 1)' own.gguf
    read -r read written <<<"$(blocks)"
    [ "$read" -eq 0 ] && [ "$written" -gt 0 ]
}

@test "damaged files are removed, and -v says so" {
    text >/dev/null
    for file in kv/*; do
        [ "$file" != kv/lock ] || continue
        perl -e 'open my $f, "+<", shift or die; seek $f, -20, 2; read $f, my $b, 1; seek $f, -20, 2; print $f chr(ord($b) ^ 16)' "$file"
    done
    zt-run -v -m model.gguf --raw -n 40 --seed 3 -i prompt --kv-store kv >got 2>err
    cmp want got
    grep -q '^zt-run: kv/[0-9a-f]*\.kv: damaged: removed' err
    cmp want <(text)
}

# A long beginning that requests share: of 600 tokens and more, so that a state is stored on the way.
@test "recurrent layers: prompts that share a beginning, in every mode" {
    "$tests/mkmodel" --arch qwen35 --seed 3 --ctx 1024 model.q
    export model=model.q
    count=$(head -c 1500 "$BATS_FILE_TMPDIR/long.txt" | zt-run -m $model --count)
    [ "$count" -gt 544 ]
    for i in 1 2 3 4; do
        printf '{"prompt":"%s tail %d","n":40,"seed":%d}\n' "$(head -c 1500 "$BATS_FILE_TMPDIR/long.txt")" "$i" "$i"
    done >requests
    zt-run -q -m $model --raw --jsonl -i requests | without_times >want.jsonl
    for i in 1 2 3 4; do
        sed -n "${i}p" requests | json_text '{prompt}' >prompt
        zt-run -q -m $model --raw -n 40 --seed $i -i prompt --temp 0 >want.$i
        zt-run -v -m $model --raw -n 40 --seed $i -i prompt --temp 0 --kv-store kv >got 2>err
        cmp want.$i got
        read=$(sed -n 's/.*kv: \([0-9]*\) blocks read.*/\1/p' err)
        if [ "$i" -eq 1 ]; then [ "$read" -eq 0 ]; else [ "$read" -ge 17 ]; fi # 16 blocks and the state behind them
        cmp want.$i <(zt-run -q -m $model --raw -n 40 --seed $i -i prompt --temp 0 --kv-store kv --chunk 7 --speculate)
        zt-run -q -m $model --raw -n 0 -i prompt --kv-store kv --logits got.npy -f
        zt-run -q -m $model --raw -n 0 -i prompt --logits want.npy -f
        cmp want.npy got.npy
    done
    zt-run -v -m $model --raw --jsonl -i requests --kv-store kv 2>err | without_times >got
    cmp want.jsonl got
    grep -q 'kv: [1-9][0-9]* blocks read' err
    rm -r kv
    cmp want.jsonl <(zt-run -q -m $model --raw --jsonl -i requests --kv-store kv | without_times)
    [ "$(find kv -name '*.state' | wc -l)" -ge 2 ]
    cmp want.jsonl <(zt-run -q -m $model --raw --jsonl -i requests --kv-store kv --chunk 33 | without_times)
    for i in 1 2 3 4; do
        sed -n "${i}p" requests | json_text '{prompt}' >prompt
        cmp want.$i <(zt-run -q -m $model --raw -n 40 --seed $i -i prompt --temp 0 --kv-store kv)
    done
}

@test "what is refused: 64, 69, 73" {
    run -64 --separate-stderr zt-run -m model.gguf --kv-store kv --no-kv-cache -p a
    run -64 --separate-stderr zt-run -m model.gguf --kv-store-size 5MB -p a
    run -64 --separate-stderr zt-run -m model.gguf --kv-store kv --embed -p a
    run -69 --separate-stderr env ZT_LIBCRYPTO=/none.so zt-run -m model.gguf --kv-store kv -p a
    run -73 --separate-stderr zt-run -m model.gguf --kv-store none/kv -p a
    [ "$stderr" = "zt-run: none/kv: cannot create the directory: No such file or directory" ]
    run -73 --separate-stderr zt-run -m model.gguf --kv-store prompt -p a
    [ "$stderr" = "zt-run: prompt: cannot open the directory: Not a directory" ]
}

# The same device from run to run. Blocks of the cpu engine are not taken, and the other way round; text and logits are those without a
# store.
takes_its_own_blocks() { # OPTION...
    head -c 200 prompt >short
    short() { zt-run -q -m model.gguf --raw -n 6 --seed 3 -i short "$@"; }
    counted() { zt-run -v -f -m model.gguf --raw -n 0 --logits got.npy -i short --kv-store kv "$@" 2>&1 | sed -n 's/.*kv: \([0-9]*\) blocks read, \([0-9]*\) written.*/\1 \2/p'; }
    short --kv-store kv >cpu
    zt-run -q -m model.gguf --raw -n 0 --logits want.npy -f -i short "$@"
    read -r read written <<<"$(counted "$@")"
    [ "$read" -eq 0 ] && [ "$written" -ge 2 ]
    cmp want.npy got.npy
    read -r read written <<<"$(counted "$@")"
    [ "$read" -ge 2 ] && [ "$written" -eq 0 ]
    cmp want.npy got.npy
    cmp <(short "$@") <(short "$@" --kv-store kv)
    cmp cpu <(short --kv-store kv)
}

@test "vulkan takes its own blocks, and gives the text that it gives without a store" {
    zt-run --version | grep -q '^vulkan:0' || skip 'no Vulkan adapter'
    takes_its_own_blocks --engine vulkan --strict-engine
}

@test "opencl takes its own blocks, and gives the text that it gives without a store" {
    zt-run --version | grep -q '^opencl:0' || skip 'no OpenCL device: built without, or no pocl-opencl-icd'
    takes_its_own_blocks --engine opencl --strict-engine
}

@test "cuda takes its own blocks, and gives the text that it gives without a store" {
    export ZT_LIBCUDA=$tests/libcuda-emu.so
    [ -e "$ZT_LIBCUDA" ] || skip 'no emulated driver: built without cuda, or no g++'
    takes_its_own_blocks --engine cuda --strict-bits
    rm -r kv
    takes_its_own_blocks --engine cuda --strict-engine
}

# ZT_LONG: 500 kills. Without it the kills at each system call are enough.
@test "killed at random moments: never another text" {
    [ -n "${ZT_LONG-}" ] || skip "in make long"
    perl "$BATS_TEST_DIRNAME/kv_store_kills.pl" 500
}

@test "killed at random moments, with recurrent layers: never another text" {
    "$tests/mkmodel" --arch qwen35 --seed 3 --ctx 1024 model.q
    perl "$BATS_TEST_DIRNAME/kv_store_kills.pl" 10 2 model.q
    [ "$(find kv -name '*.state' | wc -l)" -ge 1 ]
    [ -z "${ZT_LONG-}" ] || perl "$BATS_TEST_DIRNAME/kv_store_kills.pl" 500 8 model.q
}
