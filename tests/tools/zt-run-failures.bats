#!/usr/bin/env bats
# Manners of zt-run where things go wrong: outputs whole or absent, limits, interrupts, hostile names.
# (What is plain - exit codes, pipes, a full disk for text - is in tests/tools/zt-run.bats.)

load ../common/helper

setup_file() {
    make_models
}

setup() {
    mkdir "$BATS_TEST_TMPDIR/work" # apart from Bats' own files
    cd "$BATS_TEST_TMPDIR/work" || exit
    cp "$tiny" model.gguf
    mkdir tmp
    export TMPDIR=$PWD/tmp
}

# Nothing is left behind: no temporary file, nor any other that was not there before.
clean() { # name...
    ls -lA . tmp
    [ -z "$(ls -A tmp)" ] && [ "$(ls -A | sort | xargs)" = "$(printf '%s\n' model.gguf tmp "$@" | sort | xargs)" ]
}

# refused CODE ARGUMENTS: that code, one line, and nothing on stdout.
refused() {
    local code=$1
    shift
    run --separate-stderr zt-run "$@"
    echo "zt-run $*: $status $stderr"
    [ "$status" -eq "$code" ] && one_message zt-run && [ -z "$output" ]
}

# ---- outputs -----------------------------------------------------------------------------------------

@test "an output never replaces an input, not even with --force" {
    cp model.gguf want
    ln model.gguf link
    ln -s model.gguf alias
    echo hello >prompt
    for out in model.gguf link alias; do
        refused 73 -m model.gguf -p hi -n 2 -f -o $out
        refused 73 -m model.gguf -p hi -n 2 -f --logits $out
    done
    refused 73 -m alias -p hi -n 2 -f -o model.gguf
    refused 73 -m model.gguf -i prompt -n 2 -f -o prompt
    run ! zt-run -m model.gguf -n 2 -f -o prompt <prompt
    refused 64 -m model.gguf -p hi -n 2 -o new --logits new
    cmp model.gguf want
    [ "$(cat prompt)" = hello ]
    rm alias
    clean want link prompt
}

@test "a failure leaves no output and no temporary file" {
    refused 75 -m model.gguf -p hi -n 2 -o out --mem-limit 3M
    refused 75 -m model.gguf -p 'one two three four' -c 4 -n 2 --logits out
    refused 64 -m model.gguf -p hi -n 2 -o out --temp -1
    refused 65 -m model.gguf --detokenize -p '1 x' -o out
    refused 73 -m model.gguf -p hi -n 2 -o none/out
    refused 73 -m model.gguf -p hi -n 0 --logits none/out
    touch there
    refused 73 -m model.gguf -p hi -n 0 --logits there
    [ ! -s there ]
    clean there
}

@test "what cannot be written is 74, wherever it should go" {
    [ -w /dev/full ] || skip "no /dev/full"
    while read -r args; do
        run --separate-stderr bash -c "zt-run $args >/dev/full"
        echo "zt-run $args: $status $stderr"
        [ "$status" -eq 74 ]
        one_message zt-run
    done <<'END'
--help
--version
--completion bash
-m model.gguf --dry-run
-m model.gguf -p hi --count
-m model.gguf -p hi --tokenize
-m model.gguf -p 5 --detokenize
-m model.gguf -p hi -n 1 --json
-m model.gguf -p hi -n 0 --logits -
END
    refused 74 -m model.gguf -p hi -n 2 -o /dev/full
    refused 74 -m model.gguf -p hi -n 0 --logits /dev/full
    run --separate-stderr bash -c 'zt-run -m model.gguf -p hi -n 2 >&-'
    [ "$status" -eq 74 ]
    one_message zt-run
}

# ---- inputs ------------------------------------------------------------------------------------------

@test "files that are no model: 65 or 66, one line" {
    refused 65 -m /dev/null -p hi
    refused 66 -m '' -p hi
    refused 66 -m model.gguf/x -p hi
    refused 66 -m model.gguf -i none
    refused 66 -m model.gguf -i .
    head -c 4 model.gguf >four
    refused 65 -m four -p hi
    if [ "$(id -u)" -ne 0 ]; then
        chmod 0 four
        refused 66 -m four -p hi
    fi
}

@test "a cut model is 65 for whatever is asked of it" {
    cp "$tiny_spm" whole
    size=$(stat -c %s whole)
    # every byte of the first keys, then in steps
    for n in $(seq 1 7 200) $(seq 201 $((size / 25)) $((size - 1))) $((size - 1)); do
        head -c "$n" whole >cut
        refused 65 -m cut -p hi -n 1
        refused 65 -m cut --count -p hi
    done
    refused 65 -m cut --dry-run
    refused 65 -m cut --tokenize -p hi
    refused 65 -m cut --detokenize -p 5
}

@test "a model comes from a pipe or a FIFO, and nothing of it stays" {
    zt-run -m model.gguf -p hello -n 4 --ids >want
    mkfifo fifo
    cat model.gguf >fifo &
    zt-run -m fifo -p hello -n 4 --ids >got
    wait $!
    cmp want got
    cat model.gguf | zt-run -m - -p hello -n 4 --ids | cmp want
    zt-run -m - -p hello -n 4 --ids <model.gguf | cmp want
    run --separate-stderr bash -c 'head -c 5000 model.gguf | zt-run -m - -p hello'
    [ "$status" -eq 65 ]
    one_message zt-run
    run --separate-stderr bash -c ': | zt-run -m - -p hello'
    [ "$status" -eq 65 ]
    one_message zt-run
    run --separate-stderr bash -c 'cat model.gguf | TMPDIR=$PWD/none zt-run -m - -p hello'
    [ "$status" -eq 73 ]
    one_message zt-run
    [[ $stderr == *none* ]]
    clean want got fifo
}

# ---- limits and interrupts ---------------------------------------------------------------------------

@test "numbers out of range are 64 and name option and number" {
    while read -r option value; do
        few=(-n 1)
        [ "$option" != -n ] || few=()
        refused 64 -m model.gguf -p hi "${few[@]}" "$option" "$value"
        [[ $stderr == *"${option#--}"* || $stderr == *"${option//-/ }"* ]]
        [[ $stderr == *"$value"* ]]
    done <<'END'
-n -1
-n 99999999999999999999
-n 1.5
--temp -1
--temp nan
--top-k -1
--top-p 2
--top-p 0
--min-p 2
--repeat-last -2
--chunk 0
--ctx 0
--ctx 99999999999
--threads 0
--threads 100000
--seed -1
--mem-limit 5Q
--mem-limit -5
--kv q6_k
--kv q8_0,q4_0
--kv-values q2_k
--isa mmx
--engine warp
--format xml
END
}

@test "any --mem-limit is kept with one line, or is enough" {
    enough=0 short=0
    for ((limit = 1; limit < 64000000; limit = limit * 3 / 2 + 1)); do
        run --separate-stderr zt-run -m model.gguf -p hi -n 1 --mem-limit $limit
        if [ "$status" -eq 0 ]; then
            enough=$((enough + 1))
        else
            [ "$status" -eq 75 ] && one_message zt-run && [[ $stderr == *"limit $limit"* ]]
            [ "$enough" -eq 0 ] # more is never worse
            short=$((short + 1))
        fi
    done
    [ "$enough" -gt 0 ]
    [ "$short" -gt 10 ]
    clean
}

@test "too little address space is 75, one line" {
    ! grep -qs fsanitize "$(dirname "$bin")/flags" || skip "a sanitizer wants terabytes of it"
    for kb in 40000 45000 50000; do
        run --separate-stderr bash -c "ulimit -v $kb; zt-run -m model.gguf -p hi -n 1 -t 2"
        [ "$status" -eq 0 ] || { [ "$status" -eq 75 ] && one_message zt-run; }
    done
}

@test "SmolLM2 does not fit into 20 MB" {
    model=$("$repo/scripts/model" smollm2) || skip "no model: scripts/model smollm2 failed"
    refused 75 -m "$model" -p hi -n 1 --mem-limit 20M
    run --separate-stderr zt-run -m "$model" --dry-run --mem-limit 20M
    [ "$status" -eq 1 ]
}

interrupted() { # condition zt-run's arguments...
    run --separate-stderr interrupt_when "$1" "$bin/zt-run" "${@:2}"
    shift
    echo "zt-run $*: $status $stderr"
    [ "$status" -eq 130 ] && one_message zt-run
}

@test "SIGINT: text so far is kept, half an array is not, waiting ends" {
    # after .3 s of processor time it has computed some hundred tokens, which wait in its buffer
    computed='read -r -a stat <"/proc/$pid/stat" && [ "$((stat[13] + stat[14]))" -ge 30 ]'
    interrupted "$computed" -m model.gguf --raw -p a -c 100000 --ignore-eos -o text
    [ -s text ]
    printf 'hello on the she in there %.0s' {1..400} >prompt
    interrupted 'sleep .3' -m model.gguf --raw -i prompt -c 100000 -n 0 --chunk 1 --engine ref --logits a.npy --all-logits
    mkfifo fifo
    interrupted true -m fifo -p hi
    interrupted true -m - -p hi < <(cat model.gguf; exec sleep 20 3>&-)
    clean text prompt fifo
}

# ---- hostile names -----------------------------------------------------------------------------------

@test "a terminal's escapes in names, keys and values reach stderr and tables only escaped" {
    patch() { perl -0pe "$1" model.gguf >"$2"; } # as many bytes as before: offsets stay
    patch 's/blk\.1\.ffn_up/blk.1\e[31mup/' tensor.gguf
    patch 's/llama/l\e[3m/' arch.gguf
    patch 's/gpt2/\e[2J/' tokenizer.gguf
    patch 's/smollm/\e]0;x\a/' pre.gguf
    patch 's/llama\.block_count/llama.bl\e[2J_count/' key.gguf
    patch 's/tokenizer\.ggml\.tokens/tokenizer\e[2J.tokens/' list.gguf
    printf GGUF >$'name\e[31m\n.gguf'
    for f in *.gguf; do
        [ "$f" != model.gguf ] || continue
        run --separate-stderr zt-run -m "$f" -p hi -n 1
        echo "$f: $status" "$(cat -v <<<"$stderr")"
        [ "$status" -ne 0 ]
        one_message zt-run
        [[ $stderr != *[$'\e\a']* ]]
    done
    for args in "--\e[2J" "-m model.gguf --temp \e[2J" "-m model.gguf -p hi \e[2J" "-m model.gguf -p hi --engine \e[2J" \
        "-m model.gguf -p hi --eos \e[2J" "-m \e[2J -p hi" "-m model.gguf -i \e[2J" "-m model.gguf --detokenize -p \e[2J"; do
        run --separate-stderr zt-run $(echo -e "$args")
        [ "$status" -ne 0 ]
        one_message zt-run
        [[ $stderr != *$'\e'* ]]
    done
}

@test "a stream without end that is no model is refused at its first bytes" {
    run --separate-stderr timeout 60 "$ZT_BIN/zt-run" -m /dev/zero -p hi
    [ "$status" -eq 65 ]
    one_message zt-run
    run --separate-stderr bash -c 'yes | timeout 60 "$ZT_BIN/zt-run" -m - -p hi'
    [ "$status" -eq 65 ]
    one_message zt-run
}
