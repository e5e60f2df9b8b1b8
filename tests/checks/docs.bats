#!/usr/bin/env bats
# The documents: what README.md, ARCHITECTURE.md and the manuals say is there is there, and runs.
# (That a manual has each option of --help, and that its examples run, is in the tools' own files;
# that each option stands in an example is here.)

load ../common/helper

setup() {
    cd "$BATS_TEST_TMPDIR" || exit
}

tools() {
    basename -a "$repo"/tools/zt-*/
}

# The indented block below a heading of a Markdown file.
block() { # heading file
    awk -v h="## $1" '/^## /{on = ($0 == h)} on && /^    /{print substr($0, 5)}' "$2"
}

@test "README's five commands run when pasted" {
    ! grep -qs fsanitize "$(dirname "$bin")/flags" || skip "with a sanitizer this takes minutes"
    "$repo/scripts/model" smollm2 >model || skip "no model: scripts/model smollm2 failed"
    ln -s "$repo/scripts" scripts
    mkdir build
    ln -s "$bin" build/bin
    block 'Five commands' "$repo/README.md" >commands
    [ "$(wc -l <commands)" -eq 5 ]
    # Each but the first leaves its output in a file of its own.
    awk 'NR == 1 {print "set -euo pipefail"; print; next} {print "{ " $0 "; } >out" NR}' commands >script
    bash script </dev/null
    grep -qi 'sky' out2
    grep -q '^q4_1' out3
    [ "$(wc -w <out4)" -gt 3 ]
    [ "$(cut -f1,2 out5 | xargs)" = 'test threads pp512 1 tg128 1 pp512 2 tg128 2' ]
}

@test "README's commands on programs run when pasted" {
    ! grep -qs fsanitize "$(dirname "$bin")/flags" || skip "with a sanitizer this takes minutes"
    m=$("$repo/scripts/model" smollm2) || skip "no model: scripts/model smollm2 failed"
    export m
    mkdir build
    ln -s "$bin" build/bin
    block Programs "$repo/README.md" >commands
    for command in record compile diff stats; do
        grep -q "zt-trace $command " commands
    done
    { echo 'set -euo pipefail'; cat commands; } >script
    bash script </dev/null >out
    zt-trace show --plain run.zt | cmp - run.zt
    grep -q '= linear ' out
    grep -q '^total' out
    [ "$(zt-convert --list --format tsv logits.npz | cut -f1 | xargs)" = 'name logits best' ]
}

@test "README's job benches, passes, keeps its base and fails on regression" {
    ! grep -qs fsanitize "$(dirname "$bin")/flags" || skip "with a sanitizer this takes minutes"
    "$repo/scripts/model" smollm2 >/dev/null || skip "no model: scripts/model smollm2 failed"
    mkdir build
    ln -s "$bin" build/bin
    ln -s "$repo/scripts" scripts
    # its steps, but for what gets and builds the sources; less of the model
    block 'A benchmark in CI' "$repo/README.md" | sed -n 's/^ *\(- \)\?run: //p' | grep -v '^make ' |
        sed 's/ -r 20 / -r 6 -p 16 -n 4 --no-roof /' >steps
    [ "$(wc -l <steps)" -eq 3 ]
    export BASE=$PWD/base.json HISTORY=$PWD/speed.sqlite
    while IFS= read -r step; do bash -c "$step"; done <steps
    cmp new.json base.json
    # a base a thousand times as fast, and one a thousandth: beyond any noise
    for factor in 1000 0.001; do
        perl -MJSON::PP -e 'local $/; my $j = decode_json <STDIN>;
            for my $r (@{$j->{results}}) { $_ *= $ARGV[0] for $r->{median}, @{$r->{samples}} }
            print encode_json $j' $factor <new.json >base.json
        run bash -c "$(sed -n 2p steps)"
        [ "$status" -eq "$([ $factor = 1000 ] && echo 1 || echo 0)" ]
        [ "$(grep -c '<failure' report.xml)" -eq "$([ $factor = 1000 ] && echo 2 || echo 0)" ]
    done
    [ "$(zt-bench history speed.sqlite --format tsv | tail -n +2 | cut -f1,4 | xargs)" = '1 pp16 1 tg4' ]
}

@test "what README and ARCHITECTURE name is there" {
    cd "$repo"
    for page in README.md ARCHITECTURE.md; do
        n=0
        while IFS= read -r path; do
            compgen -G "$path" >/dev/null || { echo "$page names $path"; false; }
            n=$((n + 1))
        done < <(grep -o '`[^`]*`' "$page" | tr -d '`' | grep -E '^(lib|tools|man|tests|bench|scripts)/[^ ]*$')
        [ "$n" -ge 8 ]
        # files named without a folder, and links
        for name in $(grep -o '`[a-z_]*\.[ch]`' "$page" | tr -d '`' | sort -u); do
            [ -n "$(git ls-files "*/$name" 2>/dev/null || find lib tools -name "$name")" ] ||
                { echo "$page names $name"; false; }
        done
        for link in $(grep -o '](\([^)#]*\))' "$page" | tr -d '()]'); do
            [[ $link == http* || -e $link ]] || { echo "$page links to $link"; false; }
        done
    done
}

@test "functions, types and constants that the documents name are in the sources" {
    cd "$repo"
    n=0
    for page in README.md ARCHITECTURE.md SECURITY.md docs/engines.md docs/quantized-product.md docs/arithmetic.md; do
        for word in $(grep -oE '`(zt|ZT)_[A-Za-z0-9_]+`' $page | tr -d '`' | sort -u); do
            grep -rqwF --include='*.[ch]' --include='*.c[pu]*' --include='*.def' --include='*.mk' -e "$word" lib tools tests Makefile mk ||
                [[ $word == *_ || $word == *FAMILY ]] || { echo "$page names $word"; false; }
            n=$((n + 1))
        done
    done
    [ "$n" -ge 40 ]
}

@test "README's table names every folder" {
    cd "$repo"
    for d in lib/*/ lib tools man tests bench mk scripts; do
        [ -d "$d" ] && grep -qE "^\|.*\`${d%/}(/|\`)" README.md || { echo "README does not name $d"; false; }
    done
}

@test "the make targets and tools that README names exist" {
    cd "$repo"
    targets=$(grep -oE '(^    |`)make [a-z]+' README.md | sed 's/.* //' | sort -u)
    [ -n "$targets" ]
    for t in $targets; do
        grep -qE "^([a-z -]* )?$t( [a-z -]*)?:" Makefile mk/*.mk || { echo "no target $t"; false; }
    done
    for t in $(tools); do grep -qF "$t" README.md; done
    for t in $(grep -oE '\bzt-[a-z]+' README.md | sort -u); do [ -d "tools/$t" ]; done
}

# "-m --model MODEL": letter, name and argument of each option of a --help on stdin.
spelled() {
    sed -nE 's/^ +(-[A-Za-z])?,? ?(--[a-z-]+)?( [^ ]+)?(  .*)?$/\1 \2\3/p' | tr -s ' ' |
        sed 's/^ //; s/ $//' | grep '^-'
}

spelled_in_man() { # page
    awk '/^\.Sh /{on = ($2 == "OPTIONS")} on && /^\.It Fl/' "$1" |
        sed -E 's/^\.It //; s/ ?, / /; s/Fl -/--/g; s/Fl /-/g; s/ Ar / /'
}

@test "manuals and --help spell each option alike, argument and all" {
    for t in $(tools); do
        [ "$("$t" --help=all | spelled | wc -l)" -gt 10 ]
        diff <("$t" --help=all | spelled) <(spelled_in_man "$repo/man/$t.1")
    done
}

# The examples of manuals, a command a line: what pipes, lists and substitutions join stands apart.
commands_of() { # page...
    man_examples "$@" | sed -E 's/ [|&]+ |; |<\(|\)( |$)/\n/g'
}

# Options of a --help on stdin that no command of the file has.
shown_nowhere() { # commands
    spelled | while read -r line; do
        names=$(grep -oE -- '(^| )-[-A-Za-z]+' <<<"$line" | tr -d ' ' | paste -sd '|')
        grep -qE -- " ($names)( |=|$)" "$1" || echo "$line"
    done
}

# But --chat, which wants a terminal.
@test "each option stands in an example that runs: a tool's own in its manual, what all share in any" {
    for t in $(tools); do commands_of "$t.1"; done >all
    for t in $(tools); do
        commands_of "$t.1" | grep "^ *$t " >own
        "$t" --help=all | sed '/^Common options/,$d; / --chat /d' | shown_nowhere own >gone
        "$t" --help=all | sed '1,/^Common options/d' | shown_nowhere all >>gone
        [ ! -s gone ] || { echo "$t has no example of"; cat gone; false; }
    done
}

@test "README and zt-run(1) name each architecture that runs, zt-dna(1) each method of merging" {
    architectures=$(sed -n 's/^    {\.name = "\([^"]*\)".*/\1/p' "$repo/lib/llm/arch/arch.c")
    [ "$(wc -w <<<"$architectures")" -ge 12 ]
    for word in $architectures; do
        for page in README.md man/zt-run.1; do
            grep -qw -- "$word" "$repo/$page" || { echo "$page does not name $word"; false; }
        done
    done
    if [ -x "$(dirname "$bin")/man/mkops" ]; then # the table's own sentence: make architectures writes it
        sed -n '/^Supported architectures are$/,/^For any other/p' "$repo/man/zt-run.1" | sed '$d' |
            diff - <("$(dirname "$bin")/man/mkops" --architectures)
    fi
    run -64 --separate-stderr zt-dna merge --method nonesuch a b -o c
    [[ $stderr == *"'nonesuch': expected one of linear, "* ]]
    for word in $(sed 's/.* one of //; s/,//g' <<<"$stderr"); do
        grep -qw -- "$word" "$repo/man/zt-dna.1" || { echo "zt-dna.1 does not name $word"; false; }
    done
}

@test "manuals refer to pages that exist, and tell every exit code" {
    cd "$repo"
    for page in man/*.1; do
        [ -d "tools/$(basename "$page" .1)" ]
        while read -r name section; do
            [[ $name != zt* || $name == zt-ops || -f man/$name.$section ]] || { echo "$page: $name($section)"; false; }
        done < <(sed -n 's/^\.Xr \([a-z-]*\) \([0-9]\).*/\1 \2/p' "$page")
        for code in 0 64 65 66 69 70 71 75 130; do
            grep -q "^\.It $code\b" "$page" || { echo "$page: $code"; false; }
        done
    done
}

# Names that a table has, as completion offers them: the same rows, by another way than --help.
table_names() { # tool
    "$1" --completion bash | grep -oE "options='[^']*'" | grep -oE -- '--[a-z0-9-]+' | sort -u
}

@test "--help has at most 60 lines, and --help=all every option of the table" {
    for t in $(tools); do
        "$t" --help >short
        [ "$(wc -l <short)" -le 60 ] || { echo "$t --help has $(wc -l <short) lines"; false; }
        diff <(table_names "$t") <("$t" --help=all | grep -oE -- '^ +(-[A-Za-z], )?--[a-z0-9-]+' | grep -oE -- '--.*' | sort -u)
        # what the short one leaves out, it says where to find
        [ "$(spelled <short | wc -l)" -eq "$("$t" --help=all | spelled | wc -l)" ] ||
            grep -qxF "$t --help=all prints all $("$t" --help=all | spelled | wc -l) options." short
    done
    run -64 --separate-stderr zt-run --help=some
    [ "$stderr" = "zt-run: option '--help': 'some' is not 'all'" ]
}

# Names of the options of a --help on stdin, in one line.
listed() {
    option_names | xargs
}

@test "--help of a command or mode has its own options only" {
    zt-dna lora --help >help
    [ "$(head -1 help)" = 'Usage: zt-dna lora [--rank R] BASE TUNED -o OUT' ]
    [[ " $(listed <help) " == *' --rank '* && " $(listed <help) " == *' --output '* ]]
    for name in --method --combine --threshold; do [[ " $(listed <help) " != *" $name "* ]]; done
    cmp help <(zt-dna --help lora)
    [ "$(zt-trace diff --help | listed | grep -oE -- '--(replay|through|wrt|report|steps)' | xargs)" = '--replay --through' ]
    [ "$(zt-bench model --help | listed | grep -oE -- '--(vs|ignore-failure|from|model)' | xargs)" = '--model --vs' ]
    [ "$(zt-run --perplexity x --help | listed | grep -oE -- '--(temp|perplexity|chat|ctx|system)' | xargs)" = '--perplexity --ctx' ]
    # a command that does not exist is that of the tool; what is wrong after --help is not looked at
    cmp <(zt-dna --help) <(zt-dna nonesuch --help --bogus)
}

@test "lines of --help fit a terminal of 100 columns, and end without blanks" {
    for t in $(tools); do
        for option in --help --help=all; do
            run -0 --keep-empty-lines "$t" "$option"
            [ "${#lines[@]}" -gt 10 ]
            [ -z "$(awk 'length > 100 || / $/' <<<"$output" | tee /dev/stderr)" ]
        done
    done
}

# "--temp 0.8": options and defaults of a --help on stdin, a line each, sorted; lines that go on are joined.
defaults_of_help() {
    perl -0777 -ne 's/\n {20,}/ /g;
        while (/^ +(?:(-\w)(?:, )?)?(--[\w-]+)?(?: \S+)? .*\(default: (.*)\)$/mg) { print $2 || $1, " $3\n" }' | sort
}

# The same from a man page: each entry of OPTIONS may end with a line "Default: 0.8."
defaults_of_man() { # page
    awk '/^\.Sh /{on = ($2 == "OPTIONS")}
         on && /^\.It Fl/{
             name = ""
             for (i = 2; i <= NF; i++)
                 if ($i == "Fl") { f = $(i + 1); if (f ~ /^-/) { name = "-" f; break } if (name == "") name = "-" f }
         }
         on && /^Default: /{sub(/^Default: /, ""); sub(/\.$/, ""); print name " " $0}' "$1" | sort
}

# Names of all options of a --help on stdin, as man-option takes them.
option_names() {
    spelled | sed -E 's/^-[A-Za-z] (--)/\1/' | cut -d' ' -f1
}

@test "scripts/man-option writes names, arguments and defaults of each option as the page has them" {
    for t in $(tools); do
        mapfile -t names < <("$t" --help=all | option_names)
        { echo .Sh OPTIONS; ZT_BIN=$bin "$repo/scripts/man-option" "$t" "${names[@]}"; } >entries
        [ "$(spelled_in_man entries | wc -l)" -eq "${#names[@]}" ]
        diff <(spelled_in_man entries) <(spelled_in_man "$repo/man/$t.1")
        diff <(grep '^\.It' entries) <(awk '/^\.Sh /{on = ($2 == "OPTIONS")} on && /^\.It Fl/' "$repo/man/$t.1")
        diff <(defaults_of_man entries) <(defaults_of_man "$repo/man/$t.1")
        [ -z "$(ZT_BIN=$bin "$repo/scripts/man-option" "$t")" ]
    done
}

@test "scripts/man-option prints what a page lacks, and refuses what is no option" {
    mkdir scripts man
    cp "$repo/scripts/man-option" scripts
    sed '/^\.It Fl -tensor-type /d; /^\.It Fl T , Fl -type /d' "$repo/man/zt-quant.1" >man/zt-quant.1
    ZT_BIN=$bin scripts/man-option zt-quant >entries
    diff entries - <<'END'
.It Fl T , Fl -type Ar TYPE
Quantization type, or mix of types, of the matrices
.Pq Fl -list-types .
Default: none.
.It Fl -tensor-type Ar GLOB=TYPE
Type of tensors whose names match; the last match wins; repeatable.
Default: none.
END
    ZT_BIN=$bin run scripts/man-option zt-quant --nonesuch
    [ "$status" -ne 0 ]
    [[ $output == *"zt-quant has no option 'nonesuch'"* ]]
}

# --help has them from the tables: what a variable begins with, or the row's words.
@test "every option with a value has its default in --help, and manuals have the same" {
    for t in $(tools); do
        "$t" --help=all | defaults_of_help >help
        [ "$(wc -l <help)" -gt 8 ]
        diff help <(defaults_of_man "$repo/man/$t.1")
        # none without, but flags
        "$t" --help=all | perl -0777 -ne 's/\n {20,}/ /g; print "$1\n" while /^ +((?:-\w, )?(?:--[\w-]+|-\w) [A-Z<a-z].*)$/mg' |
            grep -E '^(-., )?-[-a-z]+ [^ ]+  ' | grep -v 'default: ' >bare || true
        [ ! -s bare ] || { cat bare; false; }
    done
    # whatever else is on the line
    zt-run --temp 3 --help=all | grep -E -- '--temp .*\(default: 0.8\)' >/dev/null
    zt-train --help=all | grep -A1 -e '--epochs' | grep -q 'default: 10'
}

@test "the picture of the folders is what scripts/draw-includes draws" {
    cd "$repo" && scripts/draw-includes | cmp - docs/includes.svg
}
