#!/usr/bin/env bats
# zt-trace: commands and options, show, and what is refused.

load ../common/helper

setup_file() {
    make_models
}

setup() {
    cd "$BATS_TEST_TMPDIR" || exit
    cat >run.zt <<'END'
zt program 1
model "m.gguf" id=00ff
in    x: f32[n,8]
data  g: f32[8] "g"
state s: f32[n,8]
y, r = rms_norm x g eps=1e-06
z = add y s
keep  s = z
out   z = z
out   r = r
END
}

@test "the man page has the options of --help, in that order" {
    man_is_true zt-trace
}

@test "the man page tells every command, in that order" {
    man_has_commands zt-trace
}

@test "the man page's examples run" {
    ln -s "$tiny" model.gguf
    man_examples_run zt-trace
}

@test "show --plain of a canonical program prints its bytes, and of any its canonical form" {
    zt-trace show --plain run.zt | cmp - run.zt
    zt-trace show --plain <run.zt | cmp - run.zt
    zt-trace show --plain - <run.zt | cmp - run.zt
    # blanks, comments, a number in other words, an output before the last op
    sed -e 's/eps=1e-06/eps=0.000001/' -e '/^z = /i out   y=y' -e '/^z = /i \\' run.zt |
        sed -e 's/ = /  =\t/; s/$/ # text/' >loose
    zt-trace show --plain loose >once
    run ! cmp once run.zt
    zt-trace show --plain once | cmp - once
}

@test "show: types beside the lines once every symbol has a number, and the same program still" {
    zt-trace show run.zt --bind n=3 >shown
    zt-trace show --plain shown | cmp - run.zt
    grep -qx 'y, r = rms_norm x g eps=1e-06  # 0: f32\[3,8\], f32\[3,1\]' shown
    grep -qx 'in    x: f32\[n,8\]  *# f32\[3,8\]' shown
    [ "$(tail -1 shown)" = '# 2 ops, 1 inputs, 1 states, 1 data, 2 outputs; symbols n' ]
    zt-trace show run.zt >shown
    [ "$(head -n -1 shown)" = "$(cat run.zt)" ]
    [ "$(tail -1 shown)" = '# 2 ops, 1 inputs, 1 states, 1 data, 2 outputs; symbols n (set their values with --bind)' ]
}

@test "--output: whole, never over the input, not without --force" {
    zt-trace show --plain run.zt -o out
    cmp out run.zt
    run -73 --separate-stderr zt-trace show run.zt -o out
    one_message zt-trace
    cp run.zt want
    run -73 --separate-stderr zt-trace show run.zt -f -o run.zt
    one_message zt-trace
    cmp run.zt want
    run -65 --separate-stderr zt-trace show want -f -o out --bind n=999999999999999999
    one_message zt-trace
    cmp out want
}

@test "what cannot be written is 74" {
    [ -w /dev/full ] || skip "no /dev/full"
    for args in --help "show run.zt" "show --plain run.zt"; do
        run --separate-stderr bash -c "zt-trace $args >/dev/full"
        echo "$args: $status $stderr"
        [ "$status" -eq 74 ]
        one_message zt-trace
    done
}

@test "misuse is one line and 64, bad programs 65, missing ones 66" {
    printf '%s\n' 'zt program 1' 'y = ad x' >bad.zt
    printf '%s\n' 'zt program 1' 'in x: f32[4]' 'y = gelu x form=bad' 'out y = y' >worse.zt
    all_refused zt-trace <<'END'
64|command|
64|show|shw run.zt
64|at most|show run.zt run.zt
64|--bind|show run.zt --bind n
64|--bind|show run.zt --bind n=-1
64|--bind|show run.zt --bind =4
64|--nope|show run.zt --nope
65|unknown|show bad.zt
65|bad.zt:2|show --plain bad.zt
65|must be tanh or erf|stats worse.zt
65|must be tanh or erf|compile worse.zt
66|none.zt|show none.zt
65|program|show /dev/null
END
}
