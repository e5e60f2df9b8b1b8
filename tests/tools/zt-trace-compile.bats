#!/usr/bin/env bats
# zt-trace compile and zt-run --plan: a plan gives the bits of the model, says what it decided, and is
# checked when it is read.

load ../common/helper

setup_file() {
    make_models
}

run_model() { # MODEL OPTION...
    local model=$1
    shift
    zt-run -m "$model" --raw -p 'The quick brown fox' -n "${n-12}" -t 2 "$@"
}

@test "compile, then zt-run --plan: the text and the logits of zt-run" {
    for m in "$tiny" "$tiny_spm"; do
        zt-trace record -m "$m" >run.zt
        zt-trace compile --bind n=1,m=1,ctx=32 run.zt >plan.zt
        grep -q '^#plan engine cpu isa=' plan.zt
        grep -q '^#plan at ' plan.zt
        run_model "$m" >want
        run_model "$m" --plan plan.zt >got
        cmp want got
        n=0 run_model "$m" --logits a.npy -f
        n=0 run_model "$m" --logits b.npy -f --plan plan.zt
        cmp a.npy b.npy
    done
}

@test "a plan is a program, and compiling it again changes nothing" {
    zt-trace record -m "$tiny" | zt-trace compile --bind n=1,m=1,ctx=32 >plan.zt
    zt-trace compile --bind n=1,m=1,ctx=32 plan.zt | cmp - plan.zt
    zt-trace show --plain plan.zt | grep -v '^#' >plain.zt
    diff plain.zt <(grep -v '^#' plan.zt)
}

@test "a pass that is off is not in the plan, and there are more kernels" {
    zt-trace record -m "$tiny" >run.zt
    zt-trace compile run.zt >all.zt
    zt-trace compile --no-fuse --no-share run.zt >few.zt
    grep -q '^#plan passes .*fuse share' all.zt
    [ "$(grep '^#plan passes' few.zt | grep -cE 'fuse|share')" -eq 0 ]
    [ "$(grep -c ' = ' all.zt)" -lt "$(grep -c ' = ' few.zt)" ]
}

@test "--report tells kernels, memory and time of each pass" {
    zt-trace record -m "$tiny" >run.zt
    zt-trace compile --report --no-cse --bind n=1,m=1,ctx=32 -m "$tiny" run.zt >plan.zt 2>report
    [ "$(head -1 report | awk '{print $1, $NF}')" = 'pass then' ]
    grep -q '^cse *off$' report
    [ "$(awk 'NR > 1 && NF == 9' report | wc -l)" -ge 4 ]
    sed '/^bind /d' run.zt | zt-trace compile --report 2>report >/dev/null
    [ "$(awk 'NR > 1 && NF == 7' report | wc -l)" -ge 4 ]
}

# Each spoils a plan in one way: 65, one line, nothing on stdout.
refused() { # SED-SCRIPT
    sed "$1" plan.zt >bad.zt
    [ "$(cmp bad.zt plan.zt | wc -l)" -eq 1 ] # the script did something
    run --separate-stderr run_model "$tiny" --plan bad.zt
    [ "$status" -eq 65 ]
    [ -z "$output" ]
    one_message zt-run
}

@test "plans that lie are refused" {
    zt-trace record -m "$tiny" | zt-trace compile --bind n=1,m=1,ctx=32 >plan.zt
    refused 's/^zt program 1/zt program 7/'
    refused '/^#plan/d'
    refused 's/^#plan passes/& magic/'
    refused 's/^#plan engine cpu/#plan engine abacus/'
    refused 's/ id=./ id=/'
    refused 's/^\(#plan at [^ ]*\) [0-9]* \([0-9]*\)$/\1 0 \2/'
    refused '0,/^#plan at/{/^#plan at/d}'
    refused 's/^\(#plan split cpu\) 0/\1 1/'
    refused 's/rms_norm/rms_morn/'
    refused 's/^in    pos/in    poz/;s/ pos / poz /g'
    run --separate-stderr run_model "$tiny_spm" --plan plan.zt
    [ "$status" -eq 65 ] && one_message zt-run
    run --separate-stderr run_model "$tiny" --plan plan.zt --engine ref
    [ "$status" -eq 65 ] && one_message zt-run
    run --separate-stderr run_model "$tiny" --plan absent.zt
    [ "$status" -eq 66 ] && one_message zt-run
}
