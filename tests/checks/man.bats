#!/usr/bin/env bats
# The manuals as a reader sees them: examples that can be pasted, and a glossary whose terms are found.

load ../common/helper

setup() {
    command -v mandoc >/dev/null || skip "no mandoc"
    cd "$BATS_TEST_TMPDIR" || exit
}

# The lines of the literal displays in EXAMPLES, as they are in the source, without indentation.
example_lines() { # page
    awk '/^\.Sh /{on = ($2 == "EXAMPLES")} /^\.Bd -literal/{display = on; next} /^\.Ed/{display = 0} display' "$1" |
        displayed | sed 's/^ *//'
}

rendered() { # page
    mandoc -T ascii -O width=80 "$1" | col -bx
}

@test "examples are rendered at 80 columns as they are in the source" {
    for page in "$repo"/man/*.[157]; do
        ! sed -n '/^\.Sh EXAMPLES/,$p' "$page" | grep '^\.Dl'
        example_lines "$page" >lines
        rendered "$page" | awk '/^EXAMPLES/{on = 1; next} /^[A-Z]/{on = 0} on' >shown
        awk '/^ {9}/ && length > 78' shown >long
        [ ! -s long ] || { echo "$page"; cat long; false; }
        sed 's/^ *//' shown >stripped
        while IFS= read -r line; do
            grep -qxF -- "$line" stripped || { echo "$page does not show: $line"; false; }
        done <lines
    done
    [ "$(example_lines "$repo/man/zt-run.1" | wc -l)" -gt 40 ]
}

@test "man(1) renders examples with the same characters" {
    command -v groff >/dev/null || skip "no groff"
    for page in "$repo"/man/*.[157]; do
        example_lines "$page" >lines
        MANWIDTH=80 groff -mdoc -T utf8 -P -cbou "$page" 2>/dev/null | sed 's/^ *//' >stripped
        while IFS= read -r line; do
            grep -qxF -- "$line" stripped || { echo "$page does not show: $line"; false; }
        done <lines
    done
}

# "term" and the pages named for it.
glossary() {
    awk '/^\.Sh /{on = ($2 == "GLOSSARY")} on && /^\.It /{term = substr($0, 5)} on && /^\.Xr /{print term "\t" $2 "." $3}' "$repo/man/zt.7"
}

@test "each term of the glossary is found in the page that it names" {
    glossary >terms
    [ "$(wc -l <terms)" -gt 30 ]
    while IFS=$'\t' read -r term page; do
        rendered "$repo/man/$page" | tr -s ' \n' ' ' >text
        # "nucleus (top-p) sampling" as it is; of what is hyphenated at the end of a line both halves
        sed -i 's/- \([a-z]\)/-\1/g' text
        head=${term%% (prompt lookup)}
        grep -qiF -- "$head" text || { echo "$page does not say '$head'"; false; }
    done <terms
}
