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
        ! sed -n '/^\.Sh EXAMPLES/,$p' "$page" | grep '^\.Dl' || false
        example_lines "$page" >lines
        rendered "$page" | awk '/^EXAMPLES/{on = 1; next} /^[A-Z]/{on = 0} on' >shown
        awk '/^         / && length > 78' shown >long
        [ ! -s long ] || { echo "$page"; cat long; false; }
        sed 's/^ *//' shown >stripped
        while IFS= read -r line; do
            grep -qxF -- "$line" stripped || { echo "$page does not show: $line"; false; }
        done <lines
    done
    [ "$(example_lines "$repo/man/zt-run.1" | wc -l)" -gt 40 ]
}

@test "no line of a page is wider than 80 columns" {
    for page in "$repo"/man/*.[157] "$(page_file zt-ops.7)"; do
        rendered "$page" | awk -v page="$page" 'length > 80 {print page ": " $0}' >long
        [ ! -s long ] || { cat long; false; }
    done
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

@test "the examples of zt(7), zt-formats(5), zt-network(5) and zt-ops(7) run" {
    "$tests/mkmodel" --arch llama --ctx 256 model.gguf
    zt-quant --type q4_0 model.gguf b.gguf 2>/dev/null
    cp model.gguf a.gguf
    for page in zt.7 zt-formats.5 zt-network.5 zt-ops.7; do
        example_lines "$(page_file "$page")" >script
        [ "$(wc -l <script)" -ge 4 ]
        bash -e -o pipefail script >out 2>err </dev/null || { echo "$page"; cat err; false; }
    done
}

# A page as man -K sees it: one line, words that were hyphenated at the end of a line whole again.
as_text() { # page
    rendered "$1" | tr -s ' \n' ' ' | sed 's/\([a-z]\)- \([a-z]\)/\1-\2/g'
}

# The file of NAME.SECTION; that of the ops is generated.
page_file() { # page
    if [ -e "$repo/man/$1" ]; then echo "$repo/man/$1"; else echo "$tests/../man/$1"; fi
}

# Whether the text on stdin has TERM, not within another word ("BOS" is not in "verbose").
has_term() { # term
    TERM_SOUGHT=$1 perl -0777 -ne 'exit !/(?<![a-z])\Q$ENV{TERM_SOUGHT}\E/i'
}

# "term" and a page named for it, a line each.
glossary() {
    awk '/^\.Sh /{on = ($2 == "GLOSSARY")} on && /^\.It /{term = substr($0, 5)} on && /^\.Xr /{print term "\t" $2 "." $3}' "$repo/man/zt.7"
}

@test "each term of the glossary is found in the pages that it names" {
    glossary >terms
    [ "$(wc -l <terms)" -gt 90 ]
    # every term names a page, no term is there twice, and they are in order
    awk '/^\.Sh /{on = ($2 == "GLOSSARY")} on && /^\.It /{print substr($0, 5)}' "$repo/man/zt.7" >heads
    diff heads <(cut -f 1 terms | uniq)
    sort -fc heads
    while IFS=$'\t' read -r term page; do
        [ -e "$page.text" ] || as_text "$(page_file "$page")" >"$page.text"
        head=${term%% (prompt lookup)}
        has_term "$head" <"$page.text" || { echo "$page does not say '$head'"; false; }
    done <terms
    # and what is not there is not found
    ! has_term "quantum annealing" <zt-run.1.text || false
    ! has_term "BOS" <<<"verbose" || false
}

@test "each tool's page has the sections of look-up, in order, and every variable that the sources read" {
    for page in "$repo"/man/*.1; do
        diff <(grep -xE '\.Sh (ENVIRONMENT|FILES|EXIT STATUS|EXAMPLES|SEE ALSO)' "$page") - <<'END'
.Sh ENVIRONMENT
.Sh FILES
.Sh EXIT STATUS
.Sh EXAMPLES
.Sh SEE ALSO
END
        if grep -q '^\.It Fl -engine' "$page"; then
            for name in ZT_ISA ZT_LIBCUDA ZT_LIBHIP ZT_LIBCUBLAS ZT_LIBCUFFT ZT_CUDA_WGMMA XDG_CACHE_HOME; do
                grep -qx "\.It Ev $name" "$page" || { echo "$page: $name"; false; }
            done
        fi
    done
    grep -rhoE 'getenv\("[A-Z_]+"\)' "$repo/lib" "$repo/tools" | grep -oE '[A-Z_]{4,}' | sort -u | grep -vx HOME >read
    [ "$(wc -l <read)" -ge 6 ]
    while IFS= read -r name; do
        grep -qx "\.It Ev $name" "$repo"/man/*.1 || { echo "no page has $name"; false; }
    done <read
}

# Ten tasks of a newcomer, who has a word to search for: "words|where|text". Where is a page, or the --help of a tool; one
# paragraph there, or one option, has both the words and the text that answers.
newcomer_tasks() {
    cat <<'END'
deterministic output|zt.7|zt-run --seed N
deterministic|zt-run.1|the same model, prompt, options and seed give the same bits
reproducible|zt-run.1|The same seed gives the same text
deterministic|zt-run --help|--seed N
nucleus|zt.7|zt-run --top-p X
nucleus|zt-run.1|Default: 0.95.
nucleus|zt-run --help|(default: 0.95)
many times in one process|zt.7|zt-run --jsonl
many prompts|zt-run.1|--jsonl loads the model once and answers any number of requests
many times|zt-run.1|send it in several requests with different seeds
many prompts|zt-run --help|--jsonl
save a conversation|zt.7|zt-run --chat --session FILE
continue it later|zt-run.1|zt-run -m MODEL --chat --session FILE
conversation|zt-run --help|--session FILE
4 GB|zt.7|zt-quant --target-size 4GB IN OUT
4GB|zt-quant.1|choose types by measured error so that the whole file has at most this size
4GB|zt-quant --help|--target-size SIZE
lost most|zt.7|zt-quant --measure
lost most|zt-quant.1|print for each tensor the root-mean-square error
quality loss|zt-quant --help|--measure
two fine-tunes of one base|zt.7|zt-dna merge --method ties --base BASE A B -o OUT
two fine-tunes|zt-dna.1|Model merging: combine several models of the same architecture into one
merge method|zt-dna --help|--method NAME
LoRA|zt.7|zt-run --lora FILE
apply a LoRA|zt-run.1|--lora FILE[=SCALE]
LoRA|zt-dna.1|MODEL may be FILE+ADAPTER[=SCALE]
LoRA|zt-run --help|--lora FILE
two engines differ|zt.7|zt-trace diff --engine ref,cpu
two engines|zt-trace.1|Find the first operation at which two executions differ
two engines differ|zt-trace --help|the first op where
CI job|zt.7|zt-bench compare OLD NEW --threshold 5%
CI|zt-bench.1|can fail a continuous-integration (CI) job on a slow-down
slow-down|zt-bench.1|counts as a regression (exit status 1), as a percentage or fraction. Default: 5%.
slower|zt-bench --help|exit 1 if slower by more than SHARE (default: 5%)
END
}

# The paragraphs of a page, or the options of a --help, each on one line.
paragraphs() { # page | tool --help
    case $1 in
    *--help) ${1% --help} --help | perl -0777 -pe 's/\n {20,}/ /g; s/ +/ /g' ;;
    *) rendered "$(page_file "$1")" | perl -00 -pe 's/\s+/ /g; s/([a-z])- ([a-z])/$1-$2/g; $_ .= "\n"' ;;
    esac
}

@test "a newcomer finds ten tasks by man and --help alone" {
    newcomer_tasks >tasks
    [ "$(cut -d '|' -f 2 tasks | grep -cx zt.7)" -eq 10 ]
    while IFS='|' read -r words where text; do
        paragraphs "$where" | grep -iF -- "$words" | grep -qF -- "$text" ||
            { echo "$where: no paragraph has both '$words' and '$text'"; false; }
    done <tasks
    # a page that lacks the words, or has them elsewhere, does not pass
    ! paragraphs zt-convert.1 | grep -iF nucleus || false
    ! paragraphs zt-run.1 | grep -iF nucleus | grep -F 'Default: 0.8.' || false
}
