#!/usr/bin/env bats
# What zt and the reference libraries accept: mutants, of which each disagreement is explained. Under ZT_LONG=1; COUNT mutants a format.

load ../common/helper

setup() {
    [ -n "${ZT_LONG:-}" ] || skip "set ZT_LONG=1"
    tests="$BATS_TEST_DIRNAME"
    cd "$BATS_TEST_TMPDIR"
}

# compare FORMAT FILE...
compare() {
    local status=0
    ZT_TESTS="$ZT_TESTS" "${ZT_PYTHON:-python3}" "$tests/differential.py" -n "${COUNT:-2000}" "$@" >table || status=$?
    [ $status != 69 ] || skip "the reference library is not installed"
    [ $status = 0 ] || { cat table; return 1; }
    grep -q '^| zt accepts | [1-9]' table
}

@test "gguf: as PyPI gguf, but for what is explained" {
    "$ZT_TESTS/mkmodel" --layers 1 --width 32 --vocab 259 m.gguf
    compare gguf "$tests"/seeds/dna/*.gguf "$tests"/seeds/checkpoint/m.gguf m.gguf
}

@test "safetensors: as PyPI safetensors, but for what is explained" {
    compare safetensors "$tests"/seeds/safetensors/*
}

@test "tokjson: as PyPI tokenizers, but for what is explained" {
    compare tokjson "$tests"/seeds/tokjson/*
}

@test "jinja: as PyPI jinja2" {
    compare jinja "$tests"/seeds/jinja/*
}
