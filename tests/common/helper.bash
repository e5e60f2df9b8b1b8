# helper.bash - what every Bats file begins with: `load ../common/helper`.
set -o pipefail
bats_require_minimum_version 1.5.0

repo=$(cd "${BASH_SOURCE[0]%/*}/../.." && pwd)
bin=${ZT_BIN:-build/bin}
tests=${ZT_TESTS:-build/tests}
PATH=$bin:$PATH
export LC_ALL=C
unset ZT_ISA NO_COLOR

# Each test stands in a folder of its own, beside $tiny as model.gguf where the file has made models. A
# file whose tests want more has a setup of its own.
in_own_folder() {
    cd "$BATS_TEST_TMPDIR" || exit
    [ -z "${tiny-}" ] || ln -sf "$tiny" model.gguf
}
setup() { in_own_folder; }

# Made models, once a file: $tiny (llama, byte-level BPE) and $tiny_spm (gemma3, SentencePiece).
make_models() {
    tiny=$BATS_FILE_TMPDIR/tiny.gguf
    tiny_spm=$BATS_FILE_TMPDIR/tiny-spm.gguf
    "$tests/mkmodel" --arch llama --ctx 256 "$tiny"
    "$tests/mkmodel" --arch gemma3 --ctx 256 "$tiny_spm"
    export tiny tiny_spm
}

# JSON on stdin; a Perl expression over $j must be true: `json '$j->{stop} eq "length"'`.
json() {
    perl -MJSON::PP -e '
        local $/; my $j = JSON::PP->new->utf8->decode(scalar <STDIN>);
        my $good = eval $ARGV[0]; die $@ if $@;
        unless ($good) { print STDERR "not so: $ARGV[0]\n", JSON::PP->new->canonical->encode($j); exit 1 }
    ' "$1"
}

# One line on stderr that begins with the tool's name: what a failure must look like. Anything else is printed.
one_message() { # tool
    [ "${#stderr_lines[@]}" -eq 1 ] && [[ ${stderr_lines[0]} == "$1: "* ]] && return
    printf 'expected one line of %s on stderr, got %d (status %s):\n%s\n' "$1" "${#stderr_lines[@]}" "${status-}" "${stderr-}"
    return 1
}

# Runs COMMAND and interrupts it alone, as soon as it would catch that and CONDITION (a shell's) holds; ends
# as it does, 128 + the number of a signal. The condition has its process in $pid. After ten minutes it is killed.
interrupt_when() { # condition command...
    perl -e '
        my ($condition, @command) = @ARGV;
        my $pid = fork // die "fork: $!";
        if (!$pid) { $SIG{INT} = "DEFAULT"; exec @command; die "$command[0]: $!" }
        my $signal = "KILL";
        $ENV{pid} = $pid;
        for (1 .. 12000) {
            exit($? & 127 ? 128 + ($? & 127) : $? >> 8) if waitpid($pid, 1) == $pid; # 1: WNOHANG
            open my $f, "<", "/proc/$pid/status" or last;
            my ($caught) = join("", <$f>) =~ /^SigCgt:\s*(\w+)/m;
            $signal = "INT", last if hex(substr $caught, -1) & 2 && !system "bash", "-c", $condition;
            select undef, undef, undef, .05;
        }
        kill $signal, $pid;
        waitpid $pid, 0;
        exit($? & 127 ? 128 + ($? & 127) : $? >> 8)' "$@"
}

# Each line of stdin "status|word|arguments": the command refuses them with that status, one line that
# holds the word, and nothing on stdout. A shell reads the arguments.
all_refused() { # tool [command]
    local code word args
    while IFS='|' read -r code word args; do
        run --separate-stderr bash -c "$* $args </dev/null"
        echo "$* $args: $status $stderr"
        [ "$status" -eq "$code" ]
        one_message "$1"
        [[ $stderr == *"$word"* ]]
        [ -z "$output" ]
    done
}

# The options of --help in their order, a line each: "--name", or "-x" where there is no name.
help_options() { # tool
    "$1" --help=all | sed -nE 's/^ +(-[A-Za-z], )?(--[a-z-]+).*/\2/p; s/^ +(-[A-Za-z])( [A-Z].*|  .*)?$/\1/p'
}

# The same from a man page: the first option of each .It line of OPTIONS.
man_options() { # page
    awk '/^\.Sh /{on = ($2 == "OPTIONS")}
         on && /^\.It Fl/{
             name = ""
             for (i = 2; i <= NF; i++)
                 if ($i == "Fl") { f = $(i + 1); if (f ~ /^-/) { name = "-" f; break } if (name == "") name = "-" f }
             sub(/^\.It /, ""); print name
         }' "$1"
}

# The man page of a tool has the options of --help, in that order, and mandoc has nothing to say
# about it, nor about the other pages named.
man_is_true() { # tool [page...]
    local pages=("$1.1" "${@:2}")
    diff <(help_options "$1") <(man_options "$repo/man/$1.1")
    command -v mandoc >/dev/null || skip "no mandoc"
    mandoc -T lint -W warning "${pages[@]/#/$repo/man/}"
}

# The commands of its usage lines are those of the man page's SYNOPSIS and of its subsections.
man_has_commands() { # tool
    local man=$repo/man/$1.1
    "$1" --help | sed -nE "s/^(Usage:|      ) $1 ([a-z]+).*/\\2/p" >commands
    [ -s commands ]
    diff commands <(awk '/^\.Sh SYNOPSIS/{on = 1} /^\.Sh DESC/{on = 0} on && /^\.Nm/{getline; print $2}' "$man")
    diff commands <(awk '/^\.Sh /{on = ($2 == "DESCRIPTION")} on && sub(/^\.Ss /, "")' "$man")
}

# The commands that man pages display, one a line: .Dl lines, and literal displays of EXAMPLES, in which
# a line that ends with a backslash, | or && continues.
man_examples() { # page...
    awk 'FNR == 1 {on = 0} /^\.Sh /{on = ($2 == "EXAMPLES")}
         /^\.Dl /{print substr($0, 5)}
         /^\.Bd -literal/{display = on; next} /^\.Ed/{display = 0}
         display {
             more = sub(/ \\e$/, "") || /(\||&&)$/
             sub(/^ +/, "")
             text = text $0
             if (more) text = text " "
             else {print text; text = ""}
         }' "${@/#/$repo/man/}" | displayed
}

# What mdoc shows of text: its escapes, as characters.
displayed() {
    sed "s/\\\\(dq/\"/g; s/\\\\(aq/'/g; s/\\\\(ga/\`/g; s/\\\\(ha/^/g; s/\\\\(ti/~/g; s/\\\\-/-/g; s/\\\\e/\\\\/g"
}

# Each of its own man page runs as it stands.
man_examples_run() { # tool
    local line n=0
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 # mpirun asks root for them
    while IFS= read -r line; do
        [[ $line != mpirun* ]] || command -v mpirun >/dev/null || continue
        bash -o pipefail -c "$line" >/dev/null 2>err </dev/null || { echo "failed: $line"; cat err; false; }
        n=$((n + 1))
    done < <(man_examples "$1.1")
    [ "$n" -ge 5 ]
}

# strace, without a sanitizer's search for leaks, which fails under it.
traced() {
    ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0 strace -f "$@"
}

# Kills at each call of each system call that writes or names: the target is old or new, and whole;
# after a normal exit nothing lies beside it. At most $most_kills of each. Adds to $kills.
killed_everywhere() { # old new target command...
    local old=$1 new=$2 target=$3 call n code before
    shift 3
    touch trace
    for call in write pwrite64 copy_file_range fsync fdatasync linkat rename,renameat,renameat2 ftruncate; do
        for ((n = 1, code = 1; code && n <= ${most_kills:-1000000}; n++)); do
            cp "$old" "$target"
            code=0
            before=$(ls -A)
            traced -qq -o trace -e trace=$call -e inject=$call:signal=KILL:when=$n "$@" 2>/dev/null || code=$?
            cmp -s "$target" "$old" || cmp -s "$target" "$new" || { echo "$call $n: $target is neither old nor new"; false; }
            [ $code -eq 0 ] || [ $code -eq 137 ] || { echo "$call $n: $code"; false; }
            kills=$((kills + (code == 137)))
            [ $code -ne 0 ] || [ "$(ls -A)" = "$before" ] || { echo "$call $n: something is left"; false; }
        done
    done
}

# noisy IN OUT REGEX SHARE [SEED]: f32 safetensors; such tensors with noise of that share of their rms.
noisy() {
    perl -e '
        my ($in, $out, $like, $share, $seed) = @ARGV;
        srand($seed // 7);
        local $/; open my $f, "<:raw", $in or die; my $all = <$f>; close $f;
        my $n = unpack "Q<", $all; my $head = substr $all, 8, $n;
        while ($head =~ /"([^"]+)":\{[^{}]*"data_offsets":\[(\d+),(\d+)\]/g) {
            my ($name, $from, $to) = ($1, $2, $3);
            next unless $name =~ /$like/;
            my @x = unpack "f<*", substr $all, 8 + $n + $from, $to - $from;
            my $s = 0; $s += $_ * $_ for @x; my $rms = sqrt($s / @x) * $share;
            $_ += $rms * sqrt(-2 * log(1 - rand)) * cos(6.283185307 * rand) for @x;
            substr($all, 8 + $n + $from, $to - $from) = pack "f<*", @x;
        }
        open $f, ">:raw", $out or die; print $f $all; close $f or die' "$@"
}
