#!/usr/bin/env bats
# The source files: their size, and names that must be unique.

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
