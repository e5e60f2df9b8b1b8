#!/usr/bin/env bats
# make install: what a user of the tools and of libzt.a gets, and that uninstall takes it all away.

load ../common/helper

# Into a folder with a blank in its name, from what is built: nothing is compiled again.
setup_file() {
    build=$(dirname "$bin")
    cd "$repo" || exit
    [ -x "$bin/zt-run" ] || skip "nothing is built in $build"
    root="$BATS_FILE_TMPDIR/a root"
    make --no-print-directory BUILD="$build" install DESTDIR="$root" PREFIX=/opt/zt >"$BATS_FILE_TMPDIR/log" 2>&1 ||
        { cat "$BATS_FILE_TMPDIR/log" >&2; return 1; }
    export build root
    export at=$root/opt/zt
    # A sanitized library wants a sanitized program.
    sanitize=$(grep -o -- '-fsanitize=[a-z,]*' "$build/flags" | head -1) || true
    export sanitize
}

tools() {
    basename -a "$repo"/tools/zt-*/
}

@test "tools, manuals, completion, library, headers and zt.pc, and nothing else" {
    {
        echo libexec/zt 755
        for t in $(tools); do
            echo "bin/$t 777" # a link to that
            echo "share/bash-completion/completions/$t 644"
            echo "share/zsh/site-functions/_$t 644"
            echo "share/fish/vendor_completions.d/$t.fish 644"
        done
        (cd "$repo/man" && ls *.[1-8] && echo zt-ops.7) | sed 's|.*\.\([1-8]\)$|share/man/man\1/& 644|'
        echo lib/libzt.a 644
        echo lib/pkgconfig/zt.pc 644
        (cd "$repo/lib" && ls zt.h zt/*.h && sed -n 's/^#include "lib\/\(.*\)"$/\1/p' zt.h zt/*.h | grep -v '^zt[./]' | sed 's|^|zt/|' &&
            echo zt/ops/ops.def) | sort -u | sed 's|.*|include/& 644|'
    } | sort >want
    (cd "$at" && find . ! -type d -printf '%P %m\n' | sort) >got
    diff want got
    [ -z "$(find "$root" ! -type d ! -path "$at/*")" ]
}

@test "all that is installed takes 60 MB at most, without symbols for debuggers" {
    [ -z "$sanitize" ] || skip "a sanitized build is larger"
    echo "$(du -sm "$root")"
    [ "$(du -sm "$root" | cut -f1)" -le 60 ]
    run ! grep -q '\.debug_info' "$at/libexec/zt"
    run ! grep -q '\.debug_info' "$at/lib/libzt.a"
}

@test "installing compiles nothing that is fresh" {
    (cd "$repo" && make BUILD="$build" -n install DESTDIR="$root" PREFIX=/opt/zt) >log
    run grep -E "^ *(echo|gcc|clang|cc|ar) " log
    [ -z "$output" ]
    grep -q zt.pc log
}

@test "the installed tools run" {
    for t in $(tools); do
        "$at/bin/$t" --version | grep "^$t [0-9]" >/dev/null
    done
}

@test "man finds the manuals" {
    command -v man >/dev/null || skip "no man"
    for t in $(tools); do
        MANPATH=$at/share/man MANPAGER=cat man -P cat "$t" >page || skip "man shows nothing here"
        grep -q "$t" page
        [ "$(wc -l <page)" -gt 20 ]
    done
}

# ---- completion --------------------------------------------------------------------------------------

# What bash offers for the words of a line with the cursor after the last: bash itself splits words at '='.
complete_line() { # tool word...
    bash -c '
        source "$1" || exit
        shift
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_LINE="$*" COMP_POINT=${#COMP_LINE}
        compopt() { :; }
        _${1//-/_}
        printf "%s\n" "${COMPREPLY[@]}"' - "$at/share/bash-completion/completions/$1" "$@"
}

# The same from fish, for a line.
complete_fish() { # line
    fish --no-config -c 'source $argv[1]; complete -C $argv[2] | string replace -r "\t.*" ""' \
        "$at/share/fish/vendor_completions.d/${1%% *}.fish" "$1"
}

# The same from zsh: in a terminal (zpty), because zsh completes nowhere else. Tab lists all, between two marks.
complete_zsh() { # line
    zsh -f "$repo/tests/checks/complete.zsh" "$at/share/zsh/site-functions" "$1"
}

@test "bash completes options, commands, words, and the words of the library's tables" {
    for t in $(tools); do
        bash -n "$at/share/bash-completion/completions/$t"
        for o in $(help_options "$t"); do
            complete_line "$t" "$o" | grep -xF -- "$o" >/dev/null
        done
    done
    [ "$(complete_line zt-run --ign)" = --ignore-eos ]
    [ "$(complete_line zt-run -m model.gguf --detok)" = --detokenize ]
    [ "$(complete_line zt-run --isa avx | xargs)" = 'avx2 avx512' ]
    [ "$(complete_line zt-run --isa = avx | xargs)" = 'avx2 avx512' ]
    [ "$(complete_line zt-run --isa = | xargs)" = 'scalar avx2 avx512 neon dotprod' ]
    [ "$(complete_line zt-run --kv '' | xargs)" = 'f16 f32 q8_0 q5_1 q5_0 q4_1 q4_0 iq4_nl' ]
    [ -z "$(complete_line zt-run -n 1)" ]
    [ -z "$(complete_line zt-run -m mod)" ] # bash's own rule: files
    [ "$(complete_line zt-bench comp)" = compare ]
    [ "$(complete_line zt-dna lo)" = lora ]
    [ "$(complete_line zt-dna lora --ra)" = --rank ]
    [ -z "$(complete_line zt-dna lora --met)" ]
    [ "$(complete_line zt-dna merge --method slerp)" = slerp ]
    [ "$(complete_line zt-dna merge --param re)" = rescale= ]
    [ -z "$(complete_line zt-dna merge --param rescale = r)" ]
    [ "$(complete_line zt-quant --type q4_k | xargs)" = 'q4_k_m q4_k_s' ]
    diff <(complete_line zt-quant -T '' | sort -u) <(zt-quant --list-types --format tsv | tail -n +2 | cut -f1 | sort -u)
    [ "$(complete_line zt-quant --tensor-type '*ffn*' = mxfp4 | xargs)" = 'mxfp4 mxfp4_moe' ]
    [ "$(complete_line zt-trace diff --engine ref,c | head -1)" = ref,cpu ]
    [ "$(complete_line zt-convert --to safe)" = safetensors ]
    [ "$(complete_line zt-convert --dtype bf)" = bf16 ]
    [ "$(complete_line zt-train --optim ada | xargs)" = 'adam adamw' ]
    [ "$(complete_line zt-train --schedule co | xargs)" = 'constant cosine' ]
    [ "$(complete_line zt-convert --hint 3 = Den)" = Dense ]
    [ "$(complete_line zt-train --new trans)" = transformer ]
    [ "$(complete_line zt-run --template chat)" = chatml ]
}

# A model with a name of a tensor that a shell would run, were it not quoted.
make_models() {
    "$tests/mkmodel" 'a model.gguf'
    zt-convert -q --rename 'output_norm.weight=out $(touch gone).weight' 'a model.gguf' b.safetensors
}

@test "bash completes tensors and metadata keys of the file on the line; names that a file has are quoted" {
    make_models
    [ "$(complete_line zt-convert 'a\ model.gguf' --cat blk.0.attn_n)" = blk.0.attn_norm.weight ]
    [ "$(complete_line zt-convert "'a model.gguf'" --unset general.arch)" = general.architecture ]
    [ "$(complete_line zt-convert 'a\ model.gguf' --set general.arch)" = general.architecture= ]
    [ "$(complete_line zt-quant 'a\ model.gguf' --tensor-type token)" = token_embd.weight= ]
    [ "$(complete_line zt-convert b.safetensors --drop out)" = 'out\ \$\(touch\ gone\).weight' ]
    [ -z "$(complete_line zt-convert --drop out)" ]
    [ ! -e gone ]
    printf '%s\n' 'zt program 1' 'in x: f32[n,2]' 'data first: f32[3,2] "w"' 'h = linear x first' 'y = sum h' 'out y = y' >p.zt
    [ "$(complete_line zt-trace grad p.zt --wrt fi)" = first ]
}

@test "fish completes the same" {
    command -v fish >/dev/null || skip "no fish"
    for t in $(tools); do
        fish --no-config -n "$at/share/fish/vendor_completions.d/$t.fish"
        for o in $(help_options "$t" | grep -e --); do
            complete_fish "$t $([[ $t == zt-@(bench|dna|trace) ]] || echo x) $o" | grep -xF -- "$o" >/dev/null || { echo "$t: $o"; false; }
        done
    done
    make_models
    [ "$(complete_fish 'zt-run --isa avx' | xargs)" = 'avx2 avx512' ]
    [ "$(complete_fish 'zt-run --isa=avx' | xargs)" = '--isa=avx2 --isa=avx512' ]
    [ -z "$(complete_fish 'zt-run -n ')" ]
    [ "$(complete_fish 'zt-run -m b.saf')" = b.safetensors ]
    [ "$(complete_fish 'zt-dna lo')" = lora ]
    [ "$(complete_fish 'zt-dna lora --ra')" = --rank ]
    [ -z "$(complete_fish 'zt-dna lora --met')" ]
    [ "$(complete_fish 'zt-quant -T q4_k' | xargs)" = 'q4_k_m q4_k_s' ]
    [ "$(complete_fish 'zt-dna merge --param re')" = rescale= ]
    complete_fish 'zt-trace diff --engine ref,c' | grep -x ref,cpu
    [ "$(complete_fish 'zt-convert b.safetensors --cat blk.0.attn_n')" = blk.0.attn_norm.weight ]
    [ "$(complete_fish 'zt-quant b.safetensors --tensor-type token')" = token_embd.weight= ]
    [ "$(complete_fish 'zt-quant b.safetensors --tensor-type token*=mxfp4' | xargs)" = 'token*=mxfp4 token*=mxfp4_moe' ]
    complete_fish 'zt-convert b.safetensors --drop out' | grep -xF 'out $(touch gone).weight'
    [ ! -e gone ]
}

@test "zsh completes the same" {
    command -v zsh >/dev/null || skip "no zsh"
    for t in $(tools); do zsh -f -n "$at/share/zsh/site-functions/_$t"; done
    make_models
    [ "$(complete_zsh 'zt-run --ign')" = --ignore-eos ]
    [ "$(complete_zsh 'zt-run --isa avx' | xargs)" = 'avx2 avx512' ]
    [ -z "$(complete_zsh 'zt-run -n ')" ]
    [ "$(complete_zsh 'zt-run -m b.saf')" = b.safetensors ]
    [ "$(complete_zsh 'zt-dna lo')" = lora ]
    [ "$(complete_zsh 'zt-dna lora --ra')" = --rank ]
    [ "$(complete_zsh 'zt-quant -T q4_k' | xargs)" = 'q4_k_m q4_k_s' ]
    [[ " $(complete_zsh 'zt-trace diff --engine ref,c' | xargs) " == *' cpu '* ]]
    [ "$(complete_zsh 'zt-convert b.safetensors --cat blk.0.attn_n')" = blk.0.attn_norm.weight ]
    [ "$(complete_zsh 'zt-quant b.safetensors --tensor-type x=mxfp4' | xargs)" = 'mxfp4 mxfp4_moe' ]
    [ ! -e gone ]
}

# The flags of zt.pc as seen below DESTDIR.
zt_flags() {
    mkdir -p pc
    sed "s|^prefix=.*|prefix=$1/opt/zt|" "$1/opt/zt/lib/pkgconfig/zt.pc" >pc/zt.pc
    PKG_CONFIG_PATH=pc pkg-config --cflags --libs zt
}

@test "a program links with nothing but zt.pc, in C and C++" {
    command -v pkg-config >/dev/null || skip "no pkg-config"
    ln -s "$root" plain # pkg-config's answer is cut at blanks
    cat >ten.c <<'C'
#include <zt.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    zt_ctx *ctx = zt_ctx_new();
    zt_gguf *g = zt_gguf_open(ctx, argv[argc - 1]);
    zt_vocab *v = g ? zt_vocab_open(g) : NULL;
    puts(v ? "a model" : zt_ctx_error(ctx));
    zt_vocab_free(v), zt_gguf_close(g), zt_ctx_free(ctx);
    return v ? 0 : 1;
}
C
    sed 's/<zt.h>/<zt\/all.h>/' ten.c >ten.cc
    flags=$(zt_flags "$PWD/plain")
    echo "$flags"
    ${CC:-gcc} -std=c17 -Wall -Wextra -Werror $sanitize -o ten ten.c $flags
    "$tests/mkmodel" m.gguf
    [ "$(./ten m.gguf)" = 'a model' ]
    run ./ten none.gguf
    [ "$status" -eq 1 ]
    [[ $output == none.gguf:* ]]
    command -v g++ >/dev/null || skip "no g++"
    g++ -Wall -Wextra -Werror $sanitize -o ten++ ten.cc $flags
    [ "$(./ten++ m.gguf)" = 'a model' ]
}

@test "examples/c builds against what is installed, and runs; what cannot be opened is an error" {
    ln -sfn "$root" plain
    flags=$(zt_flags "$PWD/plain")
    for f in "$repo"/examples/c/*.c; do
        ${CC:-gcc} -std=c17 -Wall -Wextra -Werror $sanitize -o "$(basename "$f" .c)" "$f" $flags
    done
    "$tests/mkmodel" model.gguf
    ./generate model.gguf the 3
    ./quantize model.gguf small.gguf q8_0
    ./custom_op
    for call in "generate none.gguf the 3" "quantize none.gguf small.gguf q8_0" "train no/folder/net.json"; do
        run ./$call
        [ "$status" -eq 1 ]
        [[ $output == *"${call%% *}: "*"no"*": "* ]]
    done
    ./train net.json
}

@test "examples/evolve/fitness.c builds against what is installed, and measures a network" {
    ln -sfn "$root" plain
    ${CC:-gcc} -std=c17 -Wall -Wextra -Werror $sanitize -o fitness "$repo/examples/evolve/fitness.c" $(zt_flags "$PWD/plain") -lm
    printf '%s\n' 0,0,1,0 1,0,1,1 0,1,1,1 1,1,1,0 >xor.csv
    "$bin/zt-train" -q --new sequential --set dModel=3 --set numClasses=1 -i xor.csv --epochs 1 -o xor.json
    [[ $(./fitness xor xor.json) =~ ^-?[0-9]+(\.[0-9]+)?$ ]]
    ./fitness xor -w xor.json none.json 2>/dev/null
    [ "$(cat xor.score)" = "$(./fitness xor xor.json)" ]
    [[ $(cat none.score) == "failed: none.json: "* ]]
    for call in "xor none.json" "poles xor.json"; do # no file; a network of other inputs
        run ./fitness $call
        [ "$status" -eq 1 ]
        [[ $output == "fitness: "*.json": "* ]]
    done
}

@test "zt.pc names the version and PREFIX, not DESTDIR" {
    grep -qx "prefix=/opt/zt" "$at/lib/pkgconfig/zt.pc"
    grep -qx "Version: $("$bin/zt-run" --version | sed -n '1s/.* //p')" "$at/lib/pkgconfig/zt.pc"
}

@test "without AVX the engine asks for no AVX kernel" {
    cd "$repo"
    for f in lib/engine/cpu/cpu.c lib/base/cpu.c; do
        ${CC:-gcc} -std=c17 -Wall -Wextra -Werror -I. -D_GNU_SOURCE -c -o "$BATS_TEST_TMPDIR/o.o" $f
        run ! grep -q avx2 <(nm -u "$BATS_TEST_TMPDIR/o.o")
        run ! grep -q avx512 <(nm -u "$BATS_TEST_TMPDIR/o.o")
    done
}

@test "prefix is PREFIX, and each folder may be set" {
    cd "$repo"
    make --no-print-directory BUILD="$build" -n install prefix=/opt/zt libdir=/opt/zt/lib/a >"$BATS_TEST_TMPDIR/log"
    grep -qF "libdir=\${prefix}/lib/a" "$BATS_TEST_TMPDIR/log"
    grep -qF "'/opt/zt/lib/a/libzt.a'" "$BATS_TEST_TMPDIR/log"
    run ! grep -q /usr/local "$BATS_TEST_TMPDIR/log"
    for target in install uninstall; do
        for name in prefix PREFIX; do make --no-print-directory BUILD="$build" -n $target $name=/opt/zt >"$BATS_TEST_TMPDIR/$name"; done
        grep -qF /opt/zt/ "$BATS_TEST_TMPDIR/prefix"
        diff "$BATS_TEST_TMPDIR/prefix" "$BATS_TEST_TMPDIR/PREFIX"
    done
}

@test "uninstall leaves no file, and another's files alone" {
    echo mine >"$at/bin/mine"
    cd "$repo"
    make --no-print-directory BUILD="$build" uninstall DESTDIR="$root" PREFIX=/opt/zt
    [ "$(find "$root" ! -type d)" = "$at/bin/mine" ]
}
