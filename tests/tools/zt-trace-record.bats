#!/usr/bin/env bats
# zt-trace record: programs of models, parts of them with their values, times; a C program's recording.

load ../common/helper

setup_file() {
    make_models
}

setup() {
    in_own_folder
    ln -sf "$tiny_spm" spm.gguf
}

sanitized() {
    grep -qs fsanitize "$(dirname "$bin")/flags"
}

@test "the program of a model is canonical, and is what zt-run runs" {
    for m in model spm; do
        zt-trace record -m $m.gguf >$m.zt
        zt-trace show --plain $m.zt | cmp - $m.zt
        [ "$(sed -n '2s/ id=.*//p' $m.zt)" = "model \"$m.gguf\"" ]
        # all of the prompt's values, and the program run again with them: the logits of zt-run
        zt-trace record -m $m.gguf -p 'hello there' --values v.npz -o again.zt
        cmp <(sed 3d again.zt) <(sed 3d $m.zt)
        zt-run -m again.zt -i v.npz -o out.npz
        zt-run -m $m.gguf --raw -p 'hello there' -n 0 --logits logits.npy
        printf '%s\n' 'zt program 1' 'in logits: f32[m,V]' 'out y = logits' >look.zt
        zt-run -m look.zt -i out.npz -o got.npy
        cmp got.npy logits.npy
        rm -f again.zt v.npz out.npz got.npy logits.npy
    done
}

@test "the symbols' numbers are a line, and whoever runs the program takes them" {
    n=$(zt-run -m model.gguf --tokenize -p 'hello there' | wc -w)
    zt-trace record -m model.gguf | grep -qx 'bind  n=1 m=1 ctx=32'
    zt-trace record -m model.gguf -p 'hello there' --at 2 | grep -qx 'bind  n=1 m=1 ctx=32'
    zt-trace record -m model.gguf -p 'hello there' >run.zt
    [ "$(sed -n 3p run.zt)" = "bind  n=$n m=1 ctx=32" ]
    zt-trace show run.zt | grep "^in    ids: i32\[n\] *# i32\[$n\]$" >/dev/null
    zt-trace show --bind n=7 run.zt | grep '^in    ids: i32\[n\] *# i32\[7\]$' >/dev/null
    zt-trace show --bind n=7 run.zt | grep '# i32\[1\]$' >/dev/null
    run -0 --separate-stderr zt-trace diff --engine ref,cpu run.zt
    [[ -z $output && $stderr == *" 0 beyond their bounds" ]]
    zt-trace stats --by step run.zt 2>/dev/null | grep "f32\[$n," >/dev/null
    zt-trace chrome run.zt | grep "f32\[$n," >/dev/null
    zt-trace memory --format tsv run.zt | grep "f32\[$n," >/dev/null
    zt-trace dot run.zt | grep "\[$n," >/dev/null
    zt-trace compile run.zt >plan.zt
    grep -q "^#plan bind n=$n ctx=32 m=1" plan.zt
    grep -qx "bind  n=$n m=1 ctx=32" plan.zt
    zt-bench op -r 2 run.zt >/dev/null
    run -0 --separate-stderr zt-trace show --bind nn=7 run.zt
    [ "$stderr" = "zt-trace: --bind: the program has no symbol 'nn'" ]
    # the shapes of what is given come first
    zt-trace record -m model.gguf -p 'hello there, you' --values v.npz >longer.zt
    zt-run -m run.zt -i v.npz -o a.npz
    zt-run -m longer.zt -i v.npz -o b.npz
    cmp a.npz b.npz
    # a single token, too
    zt-trace record -m model.gguf >one.zt
    zt-trace diff --engine ref,cpu one.zt -q
    # weights of bf16, whose products are smaller than what they are summed of; the model is a folder
    zt-trace record -m "$tests/../whole/llama2" -p hello >bf16.zt
    zt-trace diff --engine ref,cpu bf16.zt -q
    # a part has numbers for dimensions, and nothing to bind
    zt-trace record -m model.gguf -p hello --steps 0..3 >part.zt
    ! grep -q '^bind ' part.zt
    printf '%s\n' 'zt program 1' 'bind k=2' 'in x: f32[n]' 'out y = x' >bad.zt
    run -65 --separate-stderr zt-trace show bad.zt
    [[ $stderr == "zt-trace: bad.zt:2: bind: no dimension uses the symbol 'k'" ]]
}

@test "the model's path is kept relative to the program's folder" {
    mkdir -p deep/er other
    model_of() { sed -n 's/^model \("[^"]*"\).*/\1/p' "$1"; }
    zt-trace record -m model.gguf -p hello -o deep/er/run.zt
    [ "$(model_of deep/er/run.zt)" = '"../../model.gguf"' ]
    (cd / && zt-trace diff --engine ref,cpu "$OLDPWD/deep/er/run.zt" -q)
    (cd deep && zt-trace stats -q er/run.zt >/dev/null)
    (cd other && zt-trace record -m ../model.gguf) >here
    [ "$(model_of here)" = '"../model.gguf"' ]
    zt-trace record -m "$PWD/model.gguf" -f -o deep/er/absolute.zt
    [ "$(model_of deep/er/absolute.zt)" = "\"$PWD/model.gguf\"" ]
    # what is made of the program names the model from where it is written
    zt-trace compile deep/er/run.zt -o other/plan.zt
    [ "$(model_of other/plan.zt)" = '"../model.gguf"' ]
    (cd / && zt-trace diff --exact "$OLDPWD/other/plan.zt" "$OLDPWD/other/plan.zt" --engine cpu,cpu -q)
    zt-trace show --plain deep/er/run.zt -o other/run.zt
    [ "$(model_of other/run.zt)" = '"../model.gguf"' ]
    zt-trace compile deep/er/run.zt >plan.zt
    [ "$(model_of plan.zt)" = '"model.gguf"' ]
    zt-trace compile deep/er/run.zt | zt-trace stats -q - >/dev/null
    zt-trace show --plain deep/er/run.zt | cmp - deep/er/run.zt
    # a model that is not there keeps its name
    sed 's,^model ",model "no/,' deep/er/run.zt >deep/lost.zt
    zt-trace compile deep/lost.zt -o other/lost.zt
    [ "$(model_of other/lost.zt)" = '"no/../../model.gguf"' ]
    run -66 --separate-stderr zt-trace stats other/lost.zt
    one_message zt-trace
    # and a network is a model
    echo '{"depth":1,"rows":1,"cols":1,"layers_per_cell":1,"layers":[{"type":"Dense","input_height":2,"output_height":2}]}' >net.json
    zt-trace record -m net.json -o deep/net.zt
    [ "$(model_of deep/net.zt)" = '"../net.json"' ]
    zt-trace grad --wrt layers.0.w deep/net.zt -o other/grad.zt
    [ "$(model_of other/grad.zt)" = '"../net.json"' ]
    grep -qx 'bind  n=1' other/grad.zt
    (cd / && zt-trace diff --engine ref,cpu "$OLDPWD/other/grad.zt" -q)
}

# What out.npz has under a name is bit for bit what v.npz has.
same_tensors() { # a.npz b.npz
    zt-convert --hash "$1" | sort >hash-a
    zt-convert --hash "$2" | sort >hash-b
    [ -s hash-b ]
    [ -z "$(comm -13 hash-a hash-b)" ] || { comm -13 hash-a hash-b; false; }
}

@test "--steps and --values: any part runs again by itself, with the same bits" {
    zt-trace record -m model.gguf -o whole.zt
    last=$(zt-trace show whole.zt | sed -n 's/^# \([0-9]*\) ops.*/\1/p')
    for at in 0 2; do
        for steps in 0..0 0..$((last - 1)) 3..8 5 $((last / 2))..$((last / 2 + 6)) $((last - 2))..$((last - 1)); do
            zt-trace record -m model.gguf -p 'hello there' --at $at --steps "$steps" --values v.npz -f -o part.zt
            zt-trace show --plain part.zt | cmp - part.zt
            ! grep -q '\[n' part.zt
            grep -q '^out' part.zt
            zt-run -m part.zt -i v.npz -f -o out.npz
            # outputs are named by the values that they are; of the whole, by the program
            [ "$steps" = "0..$((last - 1))" ] || same_tensors v.npz out.npz
        done
    done
    # a part that updates a cache keeps it as a state
    zt-trace record -m model.gguf -p 'hello there' --steps 0..12 -f -o part.zt
    grep -q '^state .*f16' part.zt
    grep -q '^keep' part.zt
}

@test "--at: the step of each new token has the ids that zt-run generates" {
    printf '%s\n' 'zt program 1' 'in ids: i32[n]' 'out ids = ids' >ids.zt
    zt-run -m model.gguf --raw --temp 0 -n 4 --ignore-eos --ids -p 'hello there' | tr ' ' '\n' >want
    for at in 1 2 3 4; do
        zt-trace record -m model.gguf -p 'hello there' --at $at --steps 0..0 --values v.npz -f -o part.zt
        zt-run -m ids.zt -i v.npz -f -o id.csv
        cat id.csv
    done >got
    cmp got want
}

@test "--times: a line for each op of the program, in order" {
    zt-trace record -m model.gguf -p 'hello there' --times t.ndjson -o run.zt
    zt-trace record -m model.gguf -p 'hello there' --steps 2..5 --times part.ndjson -o part.zt
    for f in t part; do
        json '@$j == grep({ $_->{seconds} >= 0 && $_->{op} && $_->{out} } @$j)
              && join(",", map { $_->{step} } @$j) eq join(",", 0 .. $#$j)
              && grep({ $_->{seconds} > 0 } @$j) > @$j / 2' < <(sed '1s/^/[/; $!s/$/,/; $s/$/]/' $f.ndjson)
    done
    [ "$(wc -l <part.ndjson)" -eq 4 ]
    [ "$(grep -c ' = [a-z_]* ' run.zt)" -eq "$(wc -l <t.ndjson)" ]
}

@test "record: misuse is one line, and nothing is left" {
    touch there
    all_refused zt-trace record <<'END'
64|-m|
66|none.gguf|-m none.gguf
64|-p|-m model.gguf --steps 0..1
64|-p|-m model.gguf --values new
64|--steps|-m model.gguf -p hi --steps 4..3
64|--steps|-m model.gguf -p hi --steps 0..100000 --values new
64|--steps|-m model.gguf -p hi --steps x
64|--steps|-m model.gguf -p hi --steps 1..
64|--at|-m model.gguf -p hi --at -1
64|empty|-m model.gguf -p '' --values new
64|the same file|-m model.gguf -p hi --values new --times new
73|there|-m model.gguf -p hi --values there
73|there|-m model.gguf -p hi --times there
73|model.gguf|-m model.gguf -f -o model.gguf
64|unexpected argument|-m model.gguf more
64|--bind|-m model.gguf --bind n=1
65|there|-m there -p hi
END
    [ ! -e new ]
}

@test "SmolLM2 and Gemma 3: record, show --plain is a fixed point" {
    sanitized && skip "with a sanitizer this takes minutes"
    for m in smollm2 gemma3; do
        model=$("$repo/scripts/model" $m) || skip "no model: scripts/model $m failed"
        zt-trace record -m "$model" >run.zt
        [ "$(wc -l <run.zt)" -gt 400 ]
        zt-trace show --plain run.zt | cmp - run.zt
        zt-trace show run.zt --bind n=7,m=1,ctx=64 | zt-trace show --plain - | cmp - run.zt
    done
}

# ---- hostile plans -----------------------------------------------------------------------------------

# Refused with 65 and one line, in little memory and time, by whoever reads programs.
hostile() { # file word
    for tool in "zt-trace show --plain" "zt-trace show" "zt-run -i /dev/null -m"; do
        run --separate-stderr timeout 60 $tool "$1"
        echo "$tool $1: $status $stderr"
        [ "$status" -eq 65 ] && [ -z "$output" ] && [ "${#stderr_lines[@]}" -eq 1 ] && [[ $stderr == *"$2"* ]]
    done
}

program() {
    printf '%s\n' 'zt program 1' 'in x: f32[n,4]' 'in pos: i32[n]' 'state s: f32[ctx,4]' "$@"
}

@test "hostile plans: ops, arity, cycles, memory that is used up" {
    program 'y = ad x x' 'out y = y' >a.zt
    hostile a.zt "a.zt:5: unknown op 'ad'"
    program 'y = add x' >b.zt
    hostile b.zt "op add: missing input 'b'"
    program 'y = silu x x' >c.zt
    hostile c.zt 'too many inputs'
    program 'y, z = silu x' >d.zt
    hostile d.zt 'too many outputs (2): at most 1'
    program 'a = silu b' 'b = silu a' 'out b = b' >e.zt
    hostile e.zt "undefined value 'b'"
    program 'a = add a x' >f.zt
    hostile f.zt "undefined value 'a'"
    program 's1 = kv_put s x pos' 'y = silu s' 'out y = y' >g.zt
    hostile g.zt "value 's' was donated"
    program 'y = call x fn=opaque' 'out y = y' >h.zt
    hostile h.zt 'op call: the function has no name'
    program 'x = silu pos' >i.zt
    hostile i.zt "value 'x' is already defined"
    printf 'zt program 2\n' >j.zt
    hostile j.zt 'version 2'
}

@test "hostile plans: a million lines, deep expressions, huge numbers, long lines" {
    { program; awk 'BEGIN { for (i = 0; i < 1000000; i++) print "y = silu x" }'; } >a.zt
    hostile a.zt "a.zt:6: value 'y' is already defined"
    { program; awk 'BEGIN { for (i = 0; i < 1000000; i++) printf "y%d = silu x\n", i; print "z = oops x" }'; } >b.zt
    hostile b.zt "b.zt:1000005: unknown op 'oops'"
    { program; awk 'BEGIN { for (i = 0; i < 1100000; i++) printf "y%d = silu x\n", i }'; } >c.zt
    hostile c.zt 1048576
    rm -f a.zt b.zt c.zt
    deep=$(head -c 100000 /dev/zero | tr '\0' '(')
    program "in d: f32[$deep" >d.zt
    hostile d.zt 'at most 64 are allowed'
    program "in e: f32[$(seq -s+ 100000)]" >e.zt
    program "in e: f32[n$(printf -- '-n%.0s' {1..100000})]" >e.zt
    hostile e.zt '64 numbers'
    program 'in f: f32[99999999999999999999]' >f.zt
    hostile f.zt '63 bits'
    program 'in g: f32[4611686018427387904,4611686018427387904]' >g.zt
    hostile g.zt 'too large'
    { program; printf 'y = silu '; head -c 20000000 /dev/zero | tr '\0' 'x'; echo; } >h.zt
    hostile h.zt "undefined value 'x"
    { program; printf 'data w: f32[4] "'; head -c 20000000 /dev/zero | tr '\0' '"'; echo; } >i.zt
    hostile i.zt ':5:'
    program "$(printf 'y = reshape x shape=[%s]' "$(seq -s, 100)")" >j.zt
    hostile j.zt 'dimensions'
    head -c 3000000 /dev/urandom >k.zt
    hostile k.zt 'k.zt'
}

@test "hostile plans: a stream without end is refused at its first bytes" {
    run --separate-stderr timeout 60 "$bin/zt-trace" show /dev/zero
    [ "$status" -eq 65 ]
    one_message zt-trace
    run --separate-stderr bash -c 'yes | timeout 60 zt-trace show'
    [ "$status" -eq 65 ]
    one_message zt-trace
    { program 'y = silu x' 'out y = y'; } | zt-trace show --plain | grep -qx 'y = silu x'
}

@test "hostile plans: sizes that only numbers make huge cost a line, not memory" {
    program 'y = silu x' 'out y = y' >a.zt
    run --separate-stderr zt-trace show a.zt --bind n=4611686018427387904,ctx=1
    [ "$status" -eq 65 ]
    one_message zt-trace
    printf '%s\n' 'zt program 1' 'in x: f32[n,1000000]' 'y = repeat x axis=0 times=9000000000000' 'out y = y' >b.zt
    run --separate-stderr zt-trace show b.zt --bind n=3
    [ "$status" -eq 65 ]
    one_message zt-trace
    printf '%s\n' 'zt program 1' 'in x: f32[n,1000000]' 'y = repeat x axis=1 times=1000000' 'out y = y' >c.zt
    run --separate-stderr zt-run -m c.zt -i <(seq -s, 1000000) --mem-limit 100M
    [ "$status" -eq 75 ]
    one_message zt-run
}

# ---- a C program ---------------------------------------------------------------------------------------

@test "a C program on libzt records: its text runs by zt-run, with the same bits" {
    sanitized && skip "the library wants a sanitizer"
    lib=$(dirname "$bin")/libzt.a
    [ -f "$lib" ] || skip "no libzt.a"
    cat >mine.c <<'END'
#include "lib/zt/all.h"
#include <stdio.h>
static double twice(double x, void *user) { (void)user; return 2 * x; }
int main(void)
{
    zt_ctx *ctx = zt_ctx_new();
    zt_engine *e = zt_engine_open(ctx, "cpu", &(zt_engine_opts){.threads = 1, .isa = zt_isa_best()});
    zt_run *r = zt_run_new(e, false);
    zt_func opaque = {.unary = twice};
    zt_type tx = zt_type_make(ZT_F32, 2, (int64_t[]){3, 4}), tw = zt_type_make(ZT_F32, 2, (int64_t[]){5, 4});
    zt_tensor *x = zt_tensor_new(ctx, &tx), *w = zt_tensor_new(ctx, &tw);
    for (int i = 0; i < 12; i++) ((float *)zt_tensor_data(x))[i] = (float)i / 3;
    for (int i = 0; i < 20; i++) ((float *)zt_tensor_data(w))[i] = 1 / (float)(i + 1);
    zt_str text;
    zt_str_init(&text, ctx);
    zt_record_begin(r);
    if (zt_record_freeze(r, w, "fc.weight")) return 2;
    zt_tensor *y = zt_eager_tanh(r, zt_eager_linear(r, x, w, NULL, NULL)), *s = zt_eager_sum(r, y, NULL);
    if (zt_record_slot(r, w) < 0 || zt_prog_value(zt_record_prog(r), zt_record_slot(r, w))->kind != ZT_VALUE_DATA) return 3;
    if (zt_prog_value(zt_record_prog(r), zt_record_slot(r, x))->kind != ZT_VALUE_IN) return 4;
    if (zt_record_freeze(r, x, "late") != ZT_EUSAGE) return 5;
    zt_ctx_clear(ctx);
    if (zt_record_save(r, "data.safetensors", false)) return 6;
    zt_prog *p = zt_record_end(r, (zt_tensor *[]){y, s}, 2);
    zt_prog_print(p, &text);
    zt_sink *out = zt_sink_open(ctx, "run.zt", false);
    zt_sink_write(out, text.data, text.len);
    zt_sink_commit(out);
    zt_sink_close(out);
    zt_str_clear(&text);
    const char *names[] = {"in0", "out0", "out1"};
    zt_tensor *all[] = {x, y, s};
    out = zt_sink_open(ctx, "values.npz", false);
    zt_npz_writer *n = zt_npz_writer_new(ctx, out);
    for (int i = 0; i < 3; i++) {
        zt_npz_begin(n, names[i], zt_tensor_type(all[i]));
        zt_npz_write(n, zt_tensor_data(all[i]), zt_tensor_bytes(all[i]));
    }
    zt_npz_finish(n);
    zt_sink_commit(out);
    zt_npz_writer_free(n);
    zt_sink_close(out);
    zt_record_begin(r);
    y = zt_apply(r, &opaque, &x, NULL);
    zt_prog *q = zt_record_end(r, &y, 1);
    if (!zt_prog_has_opaque(q) || zt_prog_print(q, &text)) return 7;
    fputs(text.data, stdout);
    return zt_ctx_status(ctx);
}
END
    libs=$(sed -n 's/^LIBS *:= *//p' "$repo/mk/flags.mk")
    ${CC:-gcc} -std=c17 -I"$repo" -o mine mine.c "$lib" $libs -pthread
    ./mine >opaque.zt
    cat run.zt
    grep -q '^data  w0: f32\[5,4\] "fc.weight"$' run.zt
    zt-trace show --plain run.zt | cmp - run.zt
    zt-run -m run.zt --data data.safetensors -i values.npz -t 1 -o out.npz
    same_tensors values.npz out.npz
    grep -q 'fn=opaque' opaque.zt
    run -65 --separate-stderr zt-run -m opaque.zt -i values.npz -o none.npz
    one_message zt-run
    [[ $stderr == *'op call'* ]]
}
