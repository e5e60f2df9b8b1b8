#!/usr/bin/env bats
# zt-trace grad: loss and gradients as a program.

load ../common/helper

setup() {
    cd "$BATS_TEST_TMPDIR" || exit
    cat >mlp.zt <<'END'
zt program 1
in    x: f32[n,5]
in    y: f32[n,2]
data  w0: f32[16,5] "w0"
data  b0: f32[16] "b0"
in    w1: f32[2,16]
h = linear x w0 b0
a = tanh h
o = linear a w1
loss = mse o y
out   loss = loss
out   o = o
END
}

@test "a canonical program with the outputs there were, and a gradient for each name, in order" {
    zt-trace grad --wrt w0,b0 --wrt w1 --of loss mlp.zt >g.zt
    zt-trace show --plain g.zt | cmp - g.zt
    [ "$(sed -n 's/^out   \(.*\) = .*/\1/p' g.zt | paste -sd' ')" = "loss o d.w0 d.b0 d.w1" ]
    # names as words, and from standard input
    zt-trace grad --wrt w0 b0 w1 mlp.zt --of loss | cmp - g.zt
    zt-trace grad --wrt w0,b0,w1 --of loss <mlp.zt | cmp - g.zt
    zt-trace grad --wrt w0,b0,w1 --of loss - -o out.zt <mlp.zt
    cmp out.zt g.zt
    # of a value inside, and a gradient of a gradient
    zt-trace grad --wrt a --of loss mlp.zt | grep -q '^out   d.a = '
    zt-trace grad --wrt w1 --of d.w1 g.zt | grep -q '^out   d.d.w1 = '
    # it runs, and engines agree about it
    zt-trace diff g.zt --bind n=4 --all -q >table
    run ! grep -q beyond table
    run -0 grep -c within table
}

@test "the gradient is the slope" {
    # loss(w1 + h) - loss(w1 - h) against the sum of d.w1
    zt-trace grad --wrt w1 --of loss mlp.zt | sed -e 's/^out .*//' >g.zt
    d=$(zt-trace grad --wrt w1 --of loss mlp.zt | sed -n 's/^out   d.w1 = //p')
    {
        sed -e '/^out/d' -e '/^$/d' g.zt
        echo "slope = sum $d"
        for s in up:0.001 down:-0.001; do
            n=${s%:*}
            echo "w.$n = add_scalar w1 by=${s#*:}"
            echo "o.$n = linear a w.$n"
            echo "l.$n = mse o.$n y"
        done
        echo "rise = sub l.up l.down"
        echo "got = scale rise by=500"
        echo "off = sub got slope"
        echo "rel = div off slope"
        echo "out rel = rel"
    } >check.zt
    zt-trace diff --replay rel check.zt --bind n=4 --engine ref,ref >table
    awk -F'\t' 'NR > 1 && $1 == "y" {seen = 1; if ($7 > 0.01 || $7 < -0.01) exit 1} END {exit !seen}' table
}

@test "zt-run runs it: the gradient of a sum of squares is twice x" {
    printf '%s\n' 1,2.5,-3 0,4,1e3 >x.csv
    printf '%s\n' 'zt program 1' 'in x: f32[n,3]' 's = square x' 'l = sum s' 'out l = l' |
        zt-trace grad --wrt x >g.zt
    zt-run -m g.zt -i x.csv -o out.npz
    printf '%s\n' 'zt program 1' 'in x: f32[n,3]' 'y = scale x by=2' 'out y = y' >twice.zt
    zt-run -m twice.zt -i x.csv -o want.npy
    zt-convert --cat d.x out.npz | cmp - want.npy
}

@test "--seeds: cotangents are inputs" {
    sed 's/\[n,/[3,/' mlp.zt >three.zt
    zt-trace grad --wrt x --seeds --of o three.zt >g.zt
    grep -qx 'in    d.o: f32\[3,2\]' g.zt
    zt-trace show --plain g.zt | cmp - g.zt
}

@test "what has no gradient is told in one line" {
    sed 's/^a = .*/a, i = topk h k=16/; s/^out   o = o/out   i = i/' mlp.zt >top.zt
    sed -e '2i state s: f32[n,5]' -e 's/^h = .*/t = add x s\nh = linear t w0 b0/' mlp.zt >state.zt
    sed 's/^data  w0: f32/data  w0: q8_0/; s/\[16,5\]/[16,32]/; s/\[n,5\]/[n,32]/' mlp.zt >block.zt
    sed 's/^a = .*/z = argmax h\nf = cast z to=f32\na = mul h h/; s/^out   o = o/out   f = f/' mlp.zt >arg.zt
    all_refused zt-trace <<'END'
64|specify them with --wrt|grad mlp.zt
64|no value 'q'|grad --wrt q mlp.zt
64|no output 'q'|grad --wrt x --of q mlp.zt
64|given twice|grad --wrt x,x mlp.zt
64|no names|grad --wrt , mlp.zt
64|its shape is known only|grad --wrt x --seeds mlp.zt
69|state 's'|grad --wrt x state.zt
64|q8_0|grad --wrt w0 block.zt
64|--through|grad --wrt x --through mlp.zt
END
}
