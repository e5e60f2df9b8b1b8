#!/usr/bin/env bats
# The contract of the ops: tests/ops/contract.txt, one fact a line, against the table; zt-ops(7), made from it.

load ../common/helper

setup() {
    man=$(dirname "$bin")/man
    [ -x "$man/mkops" ] || skip "no $man/mkops"
    cd "$BATS_TEST_TMPDIR" || exit
    "$man/mkops" --list | LC_ALL=C sort >table
}

@test "what has been promised of an op is still so" {
    [ "$(wc -l <"$repo/tests/ops/contract.txt")" -gt 300 ]
    LC_ALL=C comm -23 "$repo/tests/ops/contract.txt" table >gone
    if [ -s gone ]; then
        echo "The table no longer says this. A new meaning is a new op, or an attribute whose default keeps the old:"
        cat gone
        false
    fi
}

@test "what the table says is in the list" {
    LC_ALL=C comm -13 "$repo/tests/ops/contract.txt" table >new
    if [ -s new ]; then
        echo "Not in tests/ops/contract.txt yet: 'make contract' adds it, and then it is promised."
        cat new
        false
    fi
}

@test "the list is sorted, and no fact stands twice" {
    LC_ALL=C sort -u "$repo/tests/ops/contract.txt" | cmp - "$repo/tests/ops/contract.txt"
}

@test "a changed fact is found" {
    sed -n '1p' table >first
    read -r op _ <first
    sed 's/ f64 / i64 /' table | LC_ALL=C sort >changed
    [ -n "$(LC_ALL=C comm -23 table changed)" ]
    grep -v "^$op " table >removed
    LC_ALL=C comm -23 table removed | grep -q "^$op "
}

@test "an op that was renamed is still an op by its old name, which has its facts" {
    [ "$(awk '$2 == "renamed" && $1 == "ln" { print $3 }' table)" = log ]
    [ "$(sed -n 's/^ln \(in\|out\|attr\) /\1 /p' table)" = "$(sed -n 's/^log \(in\|out\|attr\) /\1 /p' table)" ]
}

# Of each op in zt-ops(7) its term, a line "Term:", and the first line of its meaning.
op_meanings() {
    awk '/^\.Xc/{getline; print; if (/:$/) {getline; print}}' "$man/zt-ops.7"
}

@test "no two ops have one meaning's words" {
    op_meanings | sort | uniq -d >twice
    cat twice
    [ ! -s twice ]
}

@test "zt-ops(7) begins each op with the field's term for it: a line of man/mkops.c" {
    n=$(grep -c '^\.It Xo' "$man/zt-ops.7")
    op_meanings | grep -E '^[A-Z].*:$' >terms || true
    [ "$(wc -l <terms)" -eq "$n" ] || awk '/^\.Ic/{op = $2} /^\.Xc/{getline; if (!/^[A-Z].*:$/) {print "no term: " op; bad = 1}} END{exit bad}' "$man/zt-ops.7"
}

@test "zt-ops(7) holds every op once, by its old name too, and mandoc finds no fault" {
    old=$(grep -c '^[^ ]* renamed ' table)
    [ "$(grep -c '^\.It Xo' "$man/zt-ops.7")" -eq "$(($(cut -d' ' -f1 table | sort -u | wc -l) - old))" ]
    for op in $(cut -d' ' -f1 table | sort -u); do grep -q "^\.Ic $op\( ,\)\{0,1\}\$" "$man/zt-ops.7"; done
    command -v mandoc >/dev/null || skip "no mandoc"
    mandoc -T lint -W warning "$man/zt-ops.7"
}

@test "decision records are numbered in a row, and say what, why and when" {
    n=0
    for f in "$repo"/docs/decisions/*.md; do
        n=$((n + 1))
        [[ $(basename "$f") == "$(printf '%04d' "$n")"-*.md ]]
        for part in Decided Before Now Why; do grep -q "^$part" "$f" || { echo "$f: $part"; false; }; done
    done
    [ "$n" -ge 1 ]
}
