#!/usr/bin/env bats
# The source files: their style, their size, and names that must be unique.

load ../common/helper

setup() { cd "$repo" || exit; }

# All files of C, C++, CUDA and GLSL, one a line.
sources() {
    find lib tools tests man shaders examples -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.cpp' -o -name '*.def' \
        -o -name '*.comp' -o -name '*.glsl' | grep -v '^tests/fuzz/seeds/' | sort
}

@test "no source file has more than 800 lines" {
    [ "$(sources | wc -l)" -gt 1000 ]
    long=$(sources | xargs wc -l | awk '$2 != "total" && $1 > 800')
    echo "$long"
    [ -z "$long" ]
}

@test "test programs have names of their own, whatever folder they are in" {
    twice=$(find tests -mindepth 2 -maxdepth 2 -name '*.c' ! -path 'tests/fuzz/*' -printf '%f\n' | sort | uniq -d)
    echo "$twice"
    [ -z "$twice" ]
}

@test "C files have the style of .clang-format" {
    run scripts/format --check
    [ "$status" -ne 69 ] || skip "$output"
    echo "$output" | head -40
    [ "$status" -eq 0 ]
    [ -z "$output" ]
}

@test "a file of another style is found" {
    mkdir "$BATS_TEST_TMPDIR/tree" && cp -r .clang-format scripts "$BATS_TEST_TMPDIR/tree"
    cd "$BATS_TEST_TMPDIR/tree" && mkdir lib tools tests man examples
    printf 'int main( void ) { return 0; }\n' >lib/wrong.c
    run scripts/format --check
    [ "$status" -ne 69 ] || skip "$output"
    [ "$status" -ne 0 ]
    [[ $output == *lib/wrong.c:1:* ]]
}
