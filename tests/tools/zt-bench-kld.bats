#!/usr/bin/env bats
# zt-bench kld: divergence, percentiles and perplexities against the logits; what cannot be compared.

load ../common/helper

setup_file() {
    make_models
    "$tests/mkmodel" --arch llama --ctx 256 --type q4_0 "$BATS_FILE_TMPDIR/b.gguf"
}

setup() {
    cd "$BATS_TEST_TMPDIR" || exit
    ln -sf "$tiny" a.gguf
    ln -sf "$BATS_FILE_TMPDIR/b.gguf" b.gguf
    for i in 1 2 3 4 5 6 7 8 9; do printf 'hello on the she in there %d ' $i; done >text
}

# The figures of windows of logits, npy files of A and B in turn, from row `from` on; ids of all windows.
cat_figures='
    my ($from, $window, $ids, @npy) = @ARGV;
    my @id = split " ", $ids;
    sub rows { local $/; open my $f, "<:raw", $_[0] or die; my $b = <$f>;
        my ($n, $v) = $b =~ /\((\d+), (\d+)\)/ or die; my $at = 10 + unpack "v", substr $b, 8, 2;
        map { my @x = unpack "f<$v", substr $b, $at + 4 * $v * $_; my $top = 0;
              for (0 .. $#x) { $top = $_ if $x[$_] > $x[$top] }
              my $s = 0; $s += exp($_ - $x[$top]) for @x; my $l = $x[$top] + log $s;
              [$top, map { $_ - $l } @x] } 0 .. $n - 1 }
    my (@kl, @nll, $same);
    for (my $w = 0; @npy; $w++) {
        my @a = rows(shift @npy); my @b = rows(shift @npy);
        for my $r ($from .. $window - 2) {
            my ($top_a, @p) = @{$a[$r]}; my ($top_b, @q) = @{$b[$r]}; my $kl = 0;
            $kl += exp($p[$_]) * ($p[$_] - $q[$_]) for 0 .. $#p;
            push @kl, $kl; $same += $top_a == $top_b; my $next = $id[$w * $window + $r + 1];
            $nll[0] -= $p[$next]; $nll[1] -= $q[$next];
        }
    }
    @kl = sort { $a <=> $b } @kl; my $n = @kl; my $sum = 0; $sum += $_ for @kl;
    my $q = sub { my $at = $_[0] * ($n - 1); my $i = int $at;
        $i + 1 < $n ? $kl[$i] + ($at - $i) * ($kl[$i + 1] - $kl[$i]) : $kl[$i] };
    printf "%s %.8g\n", @$_ for ["kl_mean", $sum / $n], ["kl_min", $kl[0]], ["kl_median", $q->(.5)],
        ["kl_p90", $q->(.9)], ["kl_p95", $q->(.95)], ["kl_p99", $q->(.99)], ["kl_p99.9", $q->(.999)],
        ["kl_max", $kl[-1]], ["same_top", $same / $n], ["perplexity_a", exp($nll[0] / $n)],
        ["perplexity_b", exp($nll[1] / $n)], ["perplexity_ratio", exp(($nll[1] - $nll[0]) / $n)],
        ["tokens", $n];'

@test "the figures are those of the logits" {
    ids=($(zt-run -m a.gguf --tokenize --verbatim -i text))
    npy=()
    for w in 0 1 2; do
        zt-run -m a.gguf --detokenize -p "${ids[*]:w*20:20}" >window
        [ "$(zt-run -m a.gguf --tokenize --no-bos --verbatim -i window)" = "${ids[*]:w*20:20}" ]
        for m in a b; do
            zt-run -m $m.gguf --raw --no-bos --verbatim -i window -n 0 --exact --logits $m$w.npy --all-logits -q
            npy+=($m$w.npy)
        done
    done
    zt-run -m a.gguf --detokenize -p "${ids[*]:0:60}" >three
    for from in 10 0 17; do
        perl -e "$cat_figures" $from 20 "${ids[*]}" "${npy[@]}" >want
        given=(--from $from)
        [ $from != 10 ] || given=()
        zt-bench kld a.gguf b.gguf -i three -c 20 "${given[@]}" --exact --format tsv >out
        perl -e 'my %v = map { (split /\t/)[0, 1] } do { open my $f, "<", "out"; <$f> };
            open my $f, "<", "want"; my $n = 0;
            while (<$f>) { my ($test, $x) = split; my $y = $v{$test}; $n++;
                abs($x - $y) <= 2e-6 + 2e-5 * abs $x or die "$test: $y, not $x\n" }
            $n == 13 && $v{windows} == 3 or die "rows\n"'
    done
    [ "$(zt-run -m b.gguf --perplexity three -c 20 --exact --format tsv | sed -n 2p | cut -f1 | cut -c1-8)" = \
      "$(zt-bench kld a.gguf b.gguf -i three -c 20 --exact --format tsv | sed -n 's/^perplexity_b\t//p' | cut -c1-8)" ]
}

@test "a model is not apart from itself, and threads change nothing" {
    zt-bench kld a.gguf a.gguf -i text -c 20 --format tsv >out
    for zero in kl_mean kl_median kl_p99.9 kl_max; do [ "$(grep "^$zero"$'\t' out | cut -f2)" = 0 ]; done
    for one in same_top perplexity_ratio; do [ "$(grep "^$one"$'\t' out | cut -f2)" = 1 ]; done
    diff <(zt-bench kld a.gguf b.gguf -i text -c 20 -t 1) <(zt-bench kld a.gguf b.gguf -i text -c 20 -t 2)
}

@test "json is zt.bench/1, a result a figure" {
    zt-bench kld a.gguf b.gguf -i text -c 20 -t 1 --format json >out
    json '$j->{schema} eq "zt.bench/1" && $j->{engine} eq "cpu" && $j->{model}{id}' <out
    json 'my %r = map { $_->{test} => $_ } @{$j->{results}};
          $r{kl_mean}{unit} eq "nats" && $r{kl_mean}{median} > 0 && $r{kl_mean}{error} > 0
          && $r{kl_mean}{samples}[0] == $r{kl_mean}{median} && $r{kl_min}{median} <= $r{kl_median}{median}
          && $r{kl_median}{median} <= $r{kl_p90}{median} && $r{kl_p90}{median} <= $r{kl_max}{median}' <out
}

@test "what cannot be compared is one line and its code" {
    ln -sf "$tiny_spm" spm.gguf
    echo hello >short
    all_refused zt-bench kld <<'END'
64|two models|a.gguf -i text
64|two models|a.gguf b.gguf a.gguf -i text
64|no text|a.gguf b.gguf
64|one number|a.gguf b.gguf -i text -t 1,2
64|--from 19|a.gguf b.gguf -i text -c 20 --from 19
64|ctx|a.gguf b.gguf -i text -c 1
65|tokenizes the text differently|a.gguf spm.gguf -i text -c 20
65|too few|a.gguf b.gguf -i short -c 20
65|text|text b.gguf -i text
66|none|a.gguf none.gguf -i text
66|none|a.gguf b.gguf -i none
END
}
