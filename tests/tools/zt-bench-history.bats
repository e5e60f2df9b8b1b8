#!/usr/bin/env bats
# zt-bench --history and history: what is kept, the drawing, files that are none of ours.

load ../common/helper

setup_file() {
    make_models
}

setup() {
    in_own_folder
    run --separate-stderr zt-bench op 'neg f32[8]' -t 1 -r 2 --history probe.sqlite
    [ "$status" -ne 69 ] || skip "built without SQLite"
}

@test "every sample of every run is kept, in order" {
    zt-bench model -m model.gguf -p 12 -n 3 -t 1,2 -r 3 --history h.sqlite --format json >1.json
    zt-bench op 'neg f32[64]' -t 1 -r 7 --history h.sqlite --format json >2.json
    zt-bench kld model.gguf model.gguf -i <(printf 'hello on the she in there %d ' 1 2 3 4 5 6 7) -c 20 --history h.sqlite >kld
    zt-bench history h.sqlite --format ndjson >out
    [ "$(wc -l <out)" -eq $((4 + 3 + $(wc -l <kld) - 1)) ]
    perl -MJSON::PP -e '
        local $/; my @row = map { decode_json $_ } split /\n/, do { open my $f, "<", "out"; <$f> };
        my @want = map { open my $f, "<", $_; my $j = decode_json <$f>;
                         map { { %$_, model => $j->{model}{file}, isa => $j->{machine} } } @{$j->{results}} } "1.json", "2.json";
        for my $i (0 .. $#want) {
            my ($h, $w) = ($row[$i], $want[$i]);
            $h->{test} eq $w->{test} && $h->{threads} == $w->{threads} && $h->{unit} eq $w->{unit}
                && abs($h->{median} - $w->{median}) <= 1e-5 * $w->{median} && $h->{samples} == @{$w->{samples}}
                && $h->{run} == ($i < 4 ? 1 : 2) && $h->{command} eq ($i < 4 ? "model" : "op")
                && $h->{at} =~ /^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ$/ && $h->{engine} eq "cpu"
                && ($i >= 4 || $h->{model} =~ /model.gguf/) or die "row $i\n";
        }
        $row[-1]{command} eq "kld" or die'
    command -v sqlite3 >/dev/null || skip "no sqlite3 to look with"
    [ "$(sqlite3 h.sqlite 'PRAGMA integrity_check')" = ok ]
    perl -MJSON::PP -e 'local $/; open my $f, "<", "2.json"; print "$_\n" for @{(decode_json <$f>)->{results}[0]{samples}}' >want
    sqlite3 h.sqlite "SELECT value FROM sample JOIN result ON result.id = result WHERE test = 'neg f32[64]' AND unit = 'us' ORDER BY n" >have
    paste want have | awk '{ d = $1 - $2; if (d * d > 1e-14 * $1 * $1) exit 1; n++ } END { exit n != 7 }'
}

@test "a drawing has a panel a series and a dot a run" {
    for i in 1 2 3; do zt-bench op 'neg f32[64]' 'neg f32[<&]' -t 1 -r 2 --history h.sqlite >/dev/null || :; done
    for i in 1 2 3; do zt-bench op 'neg f32[64]' 'exp f32[64]' -t 1 -r 2 --history h.sqlite >/dev/null; done
    zt-bench history h.sqlite --plot h.svg >/dev/null
    series=$(zt-bench history h.sqlite --format tsv | tail -n +2 | cut -f4-6 | sort -u | wc -l)
    [ "$(grep -c 'class="frame"' h.svg)" -eq "$series" ]
    [ "$(grep -c '<circle' h.svg)" -eq $((3 * series)) ]
    [ "$(tail -n 1 h.svg)" = '</svg>' ]
    ! command -v xmllint >/dev/null || xmllint --noout h.svg
    run --separate-stderr zt-bench history h.sqlite --plot h.svg # it is there
    [ "$status" -eq 73 ]
    one_message zt-bench
    zt-bench history h.sqlite --plot h.svg -f >/dev/null
}

@test "--trend: a row a test with its last values by commit, the change against the one before and the best" {
    command -v sqlite3 >/dev/null || skip "no sqlite3 to make a history with known figures"
    for commit in a a b c d; do zt-bench op 'neg f32[64]' -t 1 -r 1 --no-roof --history h.sqlite --commit $commit >/dev/null; done
    zt-bench op 'exp f32[8]' -t 1 -r 1 --no-roof --history h.sqlite >/dev/null
    # microseconds by run 8 and 12 (a, so 10), 4 (b), 5 (c), 6 (d); GB/s the other way round
    sqlite3 h.sqlite "UPDATE result SET median = (SELECT CASE run WHEN 1 THEN 8 WHEN 2 THEN 12 WHEN 3 THEN 4 WHEN 4 THEN 5 ELSE 6 END)
        WHERE unit = 'us'; UPDATE result SET median = run WHERE unit = 'GB/s'"
    LC_ALL=C zt-bench history h.sqlite --trend --format tsv >out
    [ "$(head -n 1 out)" = "$(printf 'test\tthreads\tunit\tengine\tmodel\truns\tcommit\tlast\tprevious\tratio\tbest\tbest_commit\tratio_best\ttrend')" ]
    [ "$(grep -P '^neg.*\tus\t' out | cut -f 6-14)" = "$(printf '5\td\t6.0000\t5.0000\t1.200\t4.0000\tb\t1.500\t#_.,')" ]
    [ "$(grep -P '^neg.*\tGB/s\t' out | cut -f 6-14)" = "$(printf '5\td\t5.0000\t4.0000\t1.250\t5.0000\td\t1.000\t_-+#')" ]
    [ "$(grep -P '^exp.*\tus\t' out | cut -f 6,7,9,10,14)" = "$(printf '1\t\t\t\t-')" ]
    LC_ALL=en_US.UTF-8 zt-bench history h.sqlite --trend --last 2 --format json >utf8
    json '(grep { $_->{test} =~ /neg/ && $_->{unit} eq "us" } @{$j->{rows}})[0]{trend} eq "\x{2581}\x{2588}"' <utf8
    LC_ALL=en_US.UTF-8 zt-bench history h.sqlite --trend --last 2 --ascii --format tsv | grep -q "_#$"
    [ "$(zt-bench history h.sqlite --format tsv | cut -f 15 | uniq | tr '\n' ,)" = commit,a,b,c,d,, ]
    # a file of a version that kept no commits is read, and gets the column with the next run
    sqlite3 h.sqlite 'ALTER TABLE run DROP COLUMN commit_id'
    [ "$(zt-bench history h.sqlite --trend --format tsv | grep -c '^neg')" -ge 2 ]
    zt-bench op 'neg f32[64]' -t 1 -r 1 --no-roof --history h.sqlite --commit e >/dev/null
    [ "$(zt-bench history h.sqlite --trend --format tsv | grep -P '^neg.*\tus\t' | cut -f 6,7)" = 6$'\t'e ]
    all_refused zt-bench <<'END'
64|--last|history h.sqlite --last 5
64|--ascii|history h.sqlite --ascii
64|--commit|op 'neg f32[8]' -r 1 --commit a
END
}

@test "an empty file becomes a history, and has none before" {
    : >h.sqlite
    [ "$(zt-bench history h.sqlite | wc -l)" -eq 1 ]
    zt-bench op 'neg f32[8]' -t 1 -r 1 --history h.sqlite >/dev/null
    [ "$(zt-bench history h.sqlite | wc -l)" -gt 1 ]
}

@test "a run that fails leaves no trace, and one beside another waits" {
    zt-bench op 'neg f32[8]' -t 1 -r 1 --history h.sqlite >/dev/null
    before=$(zt-bench history h.sqlite)
    run ! zt-bench op 'neg f32[8]' 'no f32[8]' -t 1 -r 1 --history h.sqlite
    [ "$(zt-bench history h.sqlite)" = "$before" ]
    for i in 1 2 3 4; do zt-bench op 'neg f32[8]' -t 1 -r 1 --history h.sqlite >/dev/null & pids="$pids $!"; done
    for p in $pids; do wait "$p"; done
    [ "$(zt-bench history h.sqlite --format tsv | tail -n +2 | cut -f1 | sort -u | wc -l)" -eq 5 ]
}

@test "files that are none of ours are left alone, and are one line and 65" {
    printf 'SQLite format 3\0 and then nothing of the kind' >almost
    head -c 5000 /dev/zero | tr '\0' x >text
    zt-bench op 'neg f32[8]' -t 1 -r 50 --history good.sqlite >/dev/null
    head -c 9000 good.sqlite >cut # its last pages are gone
    perl -e 'local $/; open my $f, "<", "good.sqlite"; $_ = <$f>; substr($_, 68, 4) = "\0\0\0\1"; print' >other
    perl -e 'local $/; open my $f, "<", "good.sqlite"; $_ = <$f>; substr($_, 63, 1) = "\2"; print' >newer
    while IFS='|' read -r code file; do
        cp "$file" kept
        for how in "op 'neg f32[8]' -t 1 -r 1 --history $file" "history $file"; do
            run --separate-stderr bash -c "zt-bench $how"
            echo "zt-bench $how: $status $stderr"
            [ "$status" -eq "$code" ]
            one_message zt-bench
            [ -z "$output" ]
            cmp "$file" kept
        done
    done <<'END'
65|almost
65|text
65|other
69|newer
END
    run zt-bench history cut
    [ "$status" -eq 65 ]
    while IFS='|' read -r code args; do
        run --separate-stderr bash -c "zt-bench $args"
        echo "zt-bench $args: $status $stderr"
        [ "$status" -eq "$code" ]
        one_message zt-bench
    done <<'END'
64|history
64|history a b
66|history none.sqlite
64|history -
66|history :memory:
64|op 'neg f32[8]' -t 1 -r 1 --history -
64|op 'neg f32[8]' -t 1 -r 1 --history :memory:
73|op 'neg f32[8]' -t 1 -r 1 --history no/such/folder
64|kld model.gguf model.gguf -i text --plot x.svg
64|op 'neg f32[8]' -t 1 -r 1 --no-roof --plot x.svg
69|history newer --plot x.svg
END
    [ ! -e x.svg ] && [ ! -e none.sqlite ]
}
