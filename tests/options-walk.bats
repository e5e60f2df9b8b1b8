#!/usr/bin/env bats
# Every option of every tool in every mode takes effect or is refused: tests/walk/walk.pl, which reads --help, with
# a table a tool of what each option is given and how its effect is seen.

load helper

walk() { # tool
    ! grep -qs fsanitize "$(dirname "$bin")/flags" || skip "with a sanitizer this takes minutes"
    [[ $bin == /* ]] || bin=$PWD/$bin
    [[ $tests == /* ]] || tests=$PWD/$tests
    PATH=$bin:$PATH ZT_TESTS=$tests
    export PATH ZT_TESTS
    cd "$BATS_TEST_DIRNAME/walk" || exit
    perl walk.pl "$1.pl"
}

@test "zt-run: no option is ignored" { walk zt-run; }
@test "zt-trace: no option is ignored" { walk zt-trace; }
@test "zt-bench: no option is ignored" { walk zt-bench; }
@test "zt-dna: no option is ignored" { walk zt-dna; }
@test "zt-quant: no option is ignored" { walk zt-quant; }
@test "zt-convert: no option is ignored" { walk zt-convert; }
@test "zt-train: no option is ignored" { walk zt-train; }

@test "each tool has its table" {
    for tool in "$BATS_TEST_DIRNAME"/../tools/zt-*/; do [ -s "$BATS_TEST_DIRNAME/walk/$(basename "$tool").pl" ]; done
}

@test "an option that is ignored is found" {
    mkdir bin
    printf '#!/bin/sh\n[ "$1" = --help ] && exec %s/zt-run --help\nexec %s/zt-run --count -m model.gguf -p hi\n' \
        "$(cd "$bin" && pwd)" "$(cd "$bin" && pwd)" >bin/zt-run
    chmod +x bin/zt-run
    [[ $tests == /* ]] || tests=$PWD/$tests
    cp "$BATS_TEST_DIRNAME"/walk/{walk,shared}.pl .
    cat >few.pl <<'END'
{tool => "zt-run", make => '"$ZT_TESTS/mkmodel" --arch llama model.gguf', flags => [],
 modes => {count => {run => [qw(--count -m model.gguf -p hi)]}}, all => {"--temp" => {value => 1}}, in => {}};
END
    run env PATH="$PWD/bin:$PATH" ZT_TESTS="$tests" WALK_OPTION=--temp perl walk.pl few.pl
    [ "$status" -eq 1 ]
    [[ $output == *"zt-run, count: --temp changes nothing"* ]]
}
