#!/usr/bin/env bats
# zt-bench run as hyperfine is used (--warmup, --prepare, --parameter-scan), and compare of llama-bench's and hyperfine's JSON.

load ../common/helper

setup() {
    cd "$BATS_TEST_TMPDIR" || exit
}

# llama CPU RATE: llama-bench -o json of two tests, five samples each.
llama() {
    local samples="$2,$2.1,$2,$2.1,$2"
    cat <<JSON
[{"build_number":10061,"cpu_info":"$1","backends":"CPU","model_filename":"m.gguf","n_threads":2,"n_depth":0,"n_prompt":512,"n_gen":0,
  "avg_ts":$2,"samples_ts":[$samples]},
 {"build_number":10061,"cpu_info":"$1","backends":"CPU","model_filename":"m.gguf","n_threads":2,"n_depth":16,"n_prompt":0,"n_gen":128,
  "avg_ts":$2,"samples_ts":[$samples]}]
JSON
}

@test "run: each combination of values, with --prepare before each run and --warmup runs first" {
    zt-bench run -r 2 --warmup 1 --prepare 'echo {n} >>prepared' --parameter-scan n=1..4*2 --parameter-scan k=a,b --format json -- \
        sh -c 'echo {n}{k} >>seen' >out
    [ "$(uniq -c seen | tr -s ' ' | tr '\n' ,)" = " 3 1a, 3 1b, 3 2a, 3 2b, 3 4a, 3 4b," ]
    [ "$(uniq -c prepared | tr -s ' ' | tr '\n' ,)" = " 6 1, 6 2, 6 4," ]
    json '$j->{command} eq "sh -c echo {n}{k} >>seen" && join(",", map { $_->{test} =~ /^wall (.*)/ } @{$j->{results}})
          eq "n=1 k=a,n=1 k=b,n=2 k=a,n=2 k=b,n=4 k=a,n=4 k=b"' <out
    zt-bench run -r 1 --warmup 0 -- sh -c 'echo >>once' >/dev/null
    [ "$(wc -l <once)" -eq 1 ]
    zt-bench run -r 1 --warmup 2 --vs --prepare 'echo >>both' true true >/dev/null
    [ "$(wc -l <both)" -eq 6 ]
}

@test "run: parameters and preparations that are refused" {
    all_refused zt-bench run -r 1 <<'REFUSED'
64|has no {x}|--parameter-scan x=1 -- true
64|is given twice|--parameter-scan x=1 --parameter-scan x=2 -- true {x}
64|not NAME=VALUE|--parameter-scan x= -- true {x}
64|not NAME=VALUE|--parameter-scan =1 -- true {x}
64|not NAME=VALUE|--parameter-scan x=a,,b -- true {x}
64|not a list|--parameter-scan x=1..a -- true {x}
64|not a list|--parameter-scan x=1..99 -- true {x}
64|does not apply to --vs|--parameter-scan x=1 --vs {x} {x}
65|--prepare: false|--ignore-failure --prepare false -- true
66|none|--prepare ./none -- true
REFUSED
}

@test "compare: llama-bench's tests have the names of zt-bench model, and what its file does not say is named" {
    llama C 10 >old
    llama C 5 >now
    run --separate-stderr zt-bench compare old now --format tsv
    [ "$status" -eq 1 ]
    [ "$(cut -f 1,2,3,9 <<<"$output" | tail -n +2 | tr '\t\n' ' ,')" = "pp512 2 tokens/s slower,tg128@d16 2 tokens/s slower," ]
    [ "$stderr" = "zt-bench: warning: not known to be the same in both results: os, isa, processors" ]
    llama D 5 >now
    run --separate-stderr zt-bench compare old now
    [ "$status" -eq 65 ]
    one_message zt-bench
    [[ $stderr == *"different machines: cpu 'C' and 'D'"* ]]
    # Beside results of zt: one engine, one processor.
    cat >zt <<'JSON'
{"schema":"zt.bench/1","machine":{"os":"L","cpu":"C","isa":"avx2","threads":2},"engine":"cpu",
 "results":[{"test":"pp512","threads":2,"unit":"tokens/s","samples":[20,20.1,20,20.1,20]}]}
JSON
    zt-bench compare old zt --format tsv | grep -q "^pp512.*faster$"
    sed 's/"CPU"/"CUDA"/' old >cuda
    run --separate-stderr zt-bench compare cuda zt
    [ "$status" -eq 65 ]
    one_message zt-bench
    [[ $stderr == *"engine 'cuda' and 'cpu'"* ]]
    # Several models, each with its name.
    { head -c -2 old && echo , && sed 's/m.gguf/n.gguf/; 1s/^\[//' old; } >both
    zt-bench compare both both --format tsv 2>/dev/null | grep -q "^n.gguf pp512"
}

@test "compare: hyperfine's times are rows of run" {
    cat >old <<'JSON'
{"results":[{"command":"sleep 9","mean":9,"times":[9,9.1,9,9.1,9],"memory_usage_byte":[90000000,90000000,90000000,90000000],
  "exit_codes":[0,0,0,0,0]}]}
JSON
    zt-bench run -r 5 --format json -- true >now
    run --separate-stderr zt-bench compare old now --format tsv
    [ "$status" -eq 0 ]
    [ "$(cut -f 1,9 <<<"$output" | tail -n +2 | tr '\t\n' ' ,')" = "wall faster,peak faster," ]
    cat >scan <<'JSON'
{"results":[{"command":"f 1","times":[1,1,1,1],"parameters":{"n":"1"}},{"command":"f 2","times":[2,2,2,2],"parameters":{"n":"2"}}]}
JSON
    [ "$(zt-bench compare scan scan --format tsv 2>/dev/null | cut -f 1 | tr '\n' ,)" = "test,wall n=1,wall n=2," ]
    sed 's/,"parameters":{[^}]*}//g' scan >two
    [ "$(zt-bench compare two two --format tsv 2>/dev/null | cut -f 1 | tr '\n' ,)" = "test,wall f 1,wall f 2," ]
}

@test "compare: damaged files of llama-bench and hyperfine: 65 and one line" {
    local text
    while IFS='|' read -r text what; do
        printf '%s' "$text" >file
        run --separate-stderr zt-bench compare file file
        [ "$status" -eq 65 ]
        one_message zt-bench
        [[ $stderr == *"$what"* ]]
    done <<'DAMAGED'
[]|no tests
[1]|model_filename
[{"model_filename":"m"}]|n_threads
[{"model_filename":"m","n_threads":1}]|n_prompt
[{"model_filename":"m","n_threads":1,"n_prompt":0,"n_gen":0}]|n_prompt
[{"model_filename":"m","n_threads":-1,"n_prompt":1,"n_gen":0}]|n_threads
[{"model_filename":"m","n_threads":1,"n_prompt":8,"n_gen":0}]|0 samples
[{"model_filename":"m","n_threads":1,"n_prompt":8,"n_gen":0,"samples_ts":["a"]}]|not a number
{"results":[]}|no "results"
{"results":[1]}|"command"
{"results":[{"command":"a"}]}|0 samples
{"results":[{"command":"a","times":[null]}]}|not a number
DAMAGED
}
