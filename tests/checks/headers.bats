#!/usr/bin/env bats
# Headers and floors: each public header stands alone, and each floor calls only what is below it.

load ../common/helper

setup() {
    cd "$repo" || exit
}

# Public are lib/zt.h, lib/zt/*.h and what these include; that `make install` takes just these is tests/checks/install.bats.
public() {
    { ls lib/zt.h lib/zt/*.h; sed -n 's/^#include "\(.*\)"$/\1/p' lib/zt.h lib/zt/*.h; } | sort -u
}

# Lines of the library's sources that match, without comments of one line.
in_sources() { # PERL-REGEX FOLDER...
    local regex=$1
    shift
    grep -rnP --include='*.[ch]' --include='*.def' "$regex" "$@" | grep -vP ':\d+: *(/?\*|//)'
}

@test "each public header compiles alone as C" {
    [ "$(public | wc -l)" -ge 9 ]
    for h in $(public); do
        echo "#include \"$h\"" |
            ${CC:-gcc} -std=c17 -Wall -Wextra -Wshadow -Wstrict-prototypes -Werror -I. -xc -fsyntax-only -
    done
}

@test "each public header compiles alone as C++" {
    command -v g++ >/dev/null || skip "no g++"
    for h in $(public); do
        echo "#include \"$h\"" | g++ -std=c++11 -Wall -Wextra -Werror -I. -xc++ -fsyntax-only -
    done
}

@test "what a public header includes is public" {
    for h in $(public); do
        sed -n 's/^ *#include "\(.*\)"$/\1/p' "$h"
    done | sort -u | grep -vxF -e lib/ops/ops.def -e "$(public)" >"$BATS_TEST_TMPDIR/wrong" || true
    cat "$BATS_TEST_TMPDIR/wrong"
    [ ! -s "$BATS_TEST_TMPDIR/wrong" ]
}

@test "zt/all.h includes every header of zt/" {
    diff <(ls lib/zt.h lib/zt/*.h | grep -v /all.h) <(sed -n 's/^#include "\(.*\)"$/\1/p' lib/zt/all.h)
}

@test "every public prototype has a contract, and comments are 55 per cent of the lines or more" {
    perl tests/api/contracts.pl $(public) >"$BATS_TEST_TMPDIR/contracts"
    cat "$BATS_TEST_TMPDIR/contracts"
    [ "$(wc -l <"$BATS_TEST_TMPDIR/contracts")" -eq 1 ]
    [ "$(cut -d. -f1 "$BATS_TEST_TMPDIR/contracts")" -ge 55 ]
    printf '/* a.h - a. */\n#ifndef A_H\n#define A_H\n\nint zt_a(int n);\n\n#endif\n' >"$BATS_TEST_TMPDIR/a.h"
    perl tests/api/contracts.pl "$BATS_TEST_TMPDIR/a.h" | grep 'a.h: zt_a$'
}

@test "every macro of a public header begins with ZT_ or zt_" {
    for h in $(public); do
        printf '#include "%s"\n' "$h" | ${CC:-gcc} -I. -xc -dM -E - | cut -d' ' -f2 | cut -d'(' -f1
    done | sort -u >"$BATS_TEST_TMPDIR/all"
    printf '#include <%s.h>\n' stdarg stdbool stddef stdint |
        ${CC:-gcc} -xc -dM -E - | cut -d' ' -f2 | cut -d'(' -f1 | sort -u >"$BATS_TEST_TMPDIR/system"
    run comm -23 "$BATS_TEST_TMPDIR/all" "$BATS_TEST_TMPDIR/system"
    run grep -vE '^(ZT|zt)_' <<<"$output"
    echo "$output"
    [ -z "$output" ]
}

@test "each floor includes only floors below it" {
    declare -A below=(
        [base]='base'
        [tensor]='base tensor'
        [io]='base tensor io'
        [sign]='base io sign'
        [ops]='base tensor ops'
        [prog]='base tensor ops prog'
        [engine]='base tensor io ops prog engine'
        [dna]='base tensor io dna'
        [run]='base tensor io ops prog engine run'
        [train]='base tensor io ops prog engine run train'
        [llm]='base tensor io ops prog engine run train llm'
        [nn]='base tensor io ops prog engine run train nn'
    )
    wrong=
    while IFS=: read -r file _ include; do
        room=$(cut -d/ -f2 <<<"$file")
        other=$(sed -E 's|.*"([^"]*)".*|\1|' <<<"$include")
        case $file in lib/zt.h | lib/zt/*) continue ;; esac
        [ -n "${below[$room]}" ] || wrong+="$file: which floor is lib/$room/?"$'\n'
        [[ $other == lib/*/* && " ${below[$room]} " == *" $(cut -d/ -f2 <<<"$other") "* ]] ||
            wrong+="$file includes $other"$'\n'
    done < <(in_sources '^\s*#\s*include\s*"' lib)
    echo -n "$wrong"
    [ -z "$wrong" ]
}

@test "tools use nothing of the library that is not public" {
    wrong=$(in_sources '^\s*#\s*include\s*"lib/' tools | grep -vF "$(public | sed 's/.*/"&"/')") || true
    echo "$wrong"
    [ -z "$wrong" ]
}

@test "nothing in lib/ prints, exits, aborts or runs a shell" {
    wrong=$(in_sources '(?<![\w.>])(v?printf|puts|putchar|perror|psignal|_?exit|_Exit|quick_exit|abort|system|popen|err|errx|warnx?)\s*\(' lib |
        grep -vP 'format\(printf') || true
    wrong+=$(in_sources '(?<!")\bstd(out|err)\b(?![":])' lib) || true
    echo "$wrong"
    [ -z "$wrong" ]
}

@test "the library has no symbol that is not zt_'s, and needs none that prints or exits" {
    lib=$(dirname "$bin")/libzt.a
    [ -f "$lib" ] || skip "no $lib"
    wrong=$(nm -g --defined-only "$lib" 2>/dev/null | awk 'NF == 3 && $3 !~ /^(zt_|__|_ZTS)/ {print $3}' | sort -u)
    wrong+=$(nm -u "$lib" 2>/dev/null | awk '$1 == "U" && $2 ~ /^(v?printf|puts|putchar|perror|exit|_exit|abort|system|popen|stdout|stderr)$/ {print $2}' | sort -u)
    echo "$wrong"
    [ -z "$wrong" ]
}
