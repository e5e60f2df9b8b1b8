#!/usr/bin/env bats
# zt-trace diff: engines, instruction sets, threads and programs compared op by op; a kernel with a
# planted error (tests/tools/plant) is named; --replay.

load ../common/helper

setup() {
    cd "$BATS_TEST_TMPDIR" || exit
    cat >layer.zt <<'END'
zt program 1
in    x: f32[n,64]
in    pos: i32[n]
data  w: q4_0[64,64] "w"
data  wd: q8_0[64,64] "wd"
data  g: f32[64] "g"
state kc: f16[8,64]
state vc: f16[8,64]
n0, r0 = rms_norm x g
q = linear n0 w act=q8
k = linear n0 wd
kr = rope k pos head=32
kp = kv_put kc kr pos
vp = kv_put vc q pos
a = attention q kp vp pos head=32
s, sum, r1 = add_rms_norm a x g
u = swiglu s a
d = linear u wd act=q8
y = add d sum
keep  kc = kp
keep  vc = vp
out   y = y
END
    sed -e '/^n0/s/$/ # a comment/' -e '3a # a line more' layer.zt >loose.zt
}

# The columns name and verdict.
verdicts() {
    awk -F'\t' 'NR == 1 {for (i = 1; i <= NF; i++) at[$i] = i} NR > 1 {print $at["name"], $at["verdict"]}'
}

@test "engines, isas and threads are within their bounds" {
    zt-trace diff layer.zt --bind n=6 --all -q >ref
    [ "$(verdicts <ref | wc -l)" -eq 14 ]
    run ! grep -q beyond ref
    zt-trace diff --engine ref,cpu layer.zt --bind n=6 --all -q | cmp - ref
    zt-trace diff --engine ref,cpu --through layer.zt --bind n=6 --all -q >through
    run ! grep -q beyond through
    run ! cmp -s ref through
    best=$(zt-trace --version | sed -n 's/^instructions: .* //p')
    zt-trace diff --isa "scalar,${best:-scalar}" layer.zt --bind n=6 --all -q >isa
    run ! grep -q beyond isa
    # threads are promised the same bits, and held to that
    zt-trace diff --threads 1,3 layer.zt --bind n=6 --all -q >threads
    [ "$(verdicts <threads | grep -c ' same$')" -eq 14 ]
    zt-trace diff --engine ref,cpu --format json layer.zt --bind n=6 --all -q |
        json '$j->{schema} eq "zt.diff/1" && @{$j->{rows}} == 14 && $j->{rows}[0]{line} == 9'
}

@test "what differs and one line of summary; --all prints the rest" {
    run -0 --separate-stderr zt-trace diff layer.zt --bind n=6
    [ -z "$output" ]
    [[ $stderr =~ ^"zt-trace: 14 values compared: "[0-9]+" bit-exact, 0 beyond their bounds"$ ]]
    run -0 zt-trace diff layer.zt --bind n=6 -q --format tsv
    [[ $output == $'step\tline\t'* && ${#lines[@]} -eq 1 ]]
    zt-trace diff layer.zt --bind n=6 -q --format json | json '@{$j->{rows}} == 0'
    run -1 --separate-stderr env ZT_PLANT=rope:100:1.0001 "$tests/zt-trace-planted" diff -t 1 --bind n=6 layer.zt
    [ "$(verdicts <<<"$output")" = 'kr beyond' ]
    run -1 --separate-stderr env ZT_PLANT=rope:100:1.0001 "$tests/zt-trace-planted" diff -t 1 --bind n=6 layer.zt --all
    [ "$(verdicts <<<"$output" | wc -l)" -eq 14 ]
    [ "$(verdicts <<<"$output" | grep beyond)" = 'kr beyond' ]
}

@test "exact: bits that differ are beyond, and exit 1" {
    run -1 --separate-stderr zt-trace diff --engine ref,cpu --exact layer.zt --bind n=6
    [[ $output == *beyond* ]]
    run -0 zt-trace diff --engine cpu,cpu --exact layer.zt --bind n=6 -q
    [[ $output != *beyond* ]]
}

@test "a kernel with a planted error is the first wrong op, by name, line, shapes and element" {
    while IFS='|' read -r plant line name index; do
        run -1 --separate-stderr env ZT_PLANT="$plant" "$tests/zt-trace-planted" diff -t 1 --bind n=6 loose.zt
        echo "$plant: $stderr"
        [ "$(verdicts <<<"$output" | grep -m1 beyond)" = "$name beyond" ]
        [[ $stderr == *"loose.zt:$line: step "*", ${plant%%:*} '$name' f32[6,64] of "*"element $index is "*", expected "* ]]
        # what comes after is given sound values, and is not blamed
        [ "$(verdicts <<<"$output" | grep -c beyond)" -eq 1 ]
    done <<'END'
rms_norm:5:1.001|10|n0|[0,5]
rope:100:1.0001|13|kr|[1,36]
attention:33:1.01|16|a|[0,33]
add_rms_norm:9:-1|17|s|[0,9]
swiglu:3:1.001|18|u|[0,3]
add:1:1.001|20|y|[0,1]
END
    # block weights, activations in 8 bits: the first of three
    run -1 --separate-stderr env ZT_PLANT=linear:70:-40 "$tests/zt-trace-planted" diff -t 1 --bind n=6 loose.zt
    [[ $stderr == *"loose.zt:11: step 1, linear 'q' f32[6,64] of x f32[6,64], w q4_0[64,64]: element [1,6]"* ]]
    # through: what is made of it is wrong too
    run -1 --separate-stderr env ZT_PLANT=rms_norm:5:90 "$tests/zt-trace-planted" diff -t 1 --bind n=6 --through loose.zt
    [ "$(verdicts <<<"$output" | grep -m1 beyond)" = "n0 beyond" ]
    [ "$(verdicts <<<"$output" | grep -c beyond)" -gt 3 ]
    # and without a plant the same tool finds nothing
    run -0 "$tests/zt-trace-planted" diff -t 1 --bind n=6 loose.zt -q
}

@test "two programs: values of one name" {
    sed -e 's/^s, sum, r1 = .*/sum = add a x\ns, r1 = rms_norm sum g/' layer.zt >apart.zt
    zt-trace diff layer.zt apart.zt --bind n=6 --all -q >same
    [ "$(verdicts <same | wc -l)" -eq 14 ]
    run -1 --separate-stderr zt-trace diff layer.zt <(sed 's/^s, sum.*/& eps=0.5/' layer.zt) --bind n=6
    [[ $stderr == *"add_rms_norm 's'"* ]]
    [ "$(verdicts <<<"$output" | grep beyond | cut -d' ' -f1 | paste -sd' ')" = "s r1" ]
}

@test "a program and its plan: the same bits" {
    make_models
    bind=n=4,m=1,S=1,ctx=64
    zt-trace record -m "$tiny" -o run.zt
    zt-trace compile --bind $bind run.zt -o plan.zt
    run ! cmp -s run.zt plan.zt
    zt-trace diff --engine cpu --exact run.zt plan.zt --bind $bind --all -q >table
    verdicts <table | awk '$2 != "same" {exit 1} END {exit NR < 20}'
    grep -q 'linears' table
}

@test "--replay: one op, with its inputs; -o a program of its own that does the same" {
    zt-trace diff --replay 16 loose.zt --bind n=6 -o case.zt >one
    [ "$(cut -f1 one | paste -sd' ')" = "what q k v pos y y" ]
    zt-trace diff --replay a layer.zt --bind n=6 | cmp - one
    zt-trace show --plain case.zt | cmp - case.zt
    zt-trace diff --replay a case.zt -i case.npz >again
    cmp one again
    # block weights, and a cache that the op uses up
    zt-trace diff --replay q loose.zt --bind n=6 -o q.zt >one
    zt-trace diff --replay q q.zt -i q.npz --data q.npz | cmp - one
    zt-trace diff --replay kp loose.zt --bind n=6 -o kp.zt >one
    grep -q 'kp = kv_put kc.copy kr pos' kp.zt
    zt-trace diff --engine ref,cpu kp.zt -i kp.npz --all -q | verdicts | grep -qx 'kp same'
    make_models
    zt-trace record -m "$tiny" -p hello --values v.npz -o run.zt
    zt-trace diff --replay a0 run.zt -i v.npz -q >one
    zt-trace diff --replay a0 run.zt -i v.npz --engine ref,ref -q | grep -q '^y.a0.*same$'
    # recorded inputs are taken as they are, and nothing before the op is run
    run -1 --separate-stderr env ZT_PLANT=attention:33:1.01 "$tests/zt-trace-planted" diff -t 1 --replay a case.zt -i case.npz
    [[ $output == *beyond* && $stderr == *"attention 'a'"*"element [0,33]"* ]]
    run -0 env ZT_PLANT=attention:33:1.01 "$tests/zt-trace-planted" diff -t 1 --replay q loose.zt --bind n=6
    run -73 --separate-stderr zt-trace diff --replay q loose.zt --bind n=6 -o q.zt
    one_message zt-trace
}

@test "misuse is one line and 64" {
    all_refused zt-trace <<'END'
64|'--engine' does not apply to show|show --engine ref,cpu layer.zt
64|only to diff|stats --engine ref,cpu layer.zt
64|A,B|diff --engine ref,cpu,ref layer.zt
64|A,B|diff --isa , layer.zt
64|1 to 256|diff --threads 1,0 layer.zt
64|is not an op|diff --replay 4 layer.zt --bind n=6
64|neither|diff --replay x layer.zt --bind n=6
64|neither|diff --replay nope layer.zt --bind n=6
64|one program|diff --replay 9 layer.zt layer.zt --bind n=6
64|--all|diff --replay 9 --all layer.zt --bind n=6
64|applies only with --replay|diff layer.zt --bind n=6 -o out.zt
64|NAME.zt|diff --replay 9 layer.zt --bind n=6 -o out
64|at most|diff layer.zt layer.zt layer.zt
64|nosuch|diff --engine ref,nosuch layer.zt --bind n=6
66|none.zt|diff layer.zt none.zt --bind n=6
END
}
