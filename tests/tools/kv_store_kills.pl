#!/usr/bin/env perl
# kv_store_kills.pl N - N runs of zt-run --kv-store are killed at random moments; after each the text from the store has to be that
# without one. In a folder with model.gguf.
use strict;
use warnings;
use Time::HiRes qw(sleep time);

my $count = shift;
srand 20261127;
my @words = qw(hello on the she in there);
my @prompts = map { my $n = $_; join " ", map { $words[($_ * $n) % @words] } 1 .. 90 + $n } 1 .. 5;
my @common = qw(-q -m model.gguf --raw -n 30 --temp 0);
my @store = qw(--kv-store kv --kv-store-size);

sub text { open my $out, "-|", "zt-run", @_ or die; local $/; my $text = <$out>; close $out or die "zt-run @_: $?\n"; $text }

my @want = map { text(@common, "-p", $_) } @prompts;
my $begin = time;
text(@common, "-p", $prompts[0], @store, "1GB");
my $usual = time - $begin;
my ($killed, $size) = (0, -s (glob "kv/*.kv")[0]);
while ($killed < $count) {
    my $number = int rand @prompts;
    my $pid = fork // die;
    if (!$pid) {
        open STDOUT, ">", "/dev/null";
        exec "zt-run", @common, "-p", $prompts[$number], @store, $size * 12;
    }
    sleep rand(1.2 * $usual);
    kill KILL => $pid;
    waitpid $pid, 0;
    $killed += ($? & 127) == 9;
    unlink glob "kv/*.kv" if rand() < .1;
    my $check = rand() < .5 ? $number : int rand @prompts;
    my $got = text(@common, "-p", $prompts[$check], @store, $size * 12);
    die "kill $killed: another text of prompt $check\n" if $got ne $want[$check];
    my $bytes = 0;
    $bytes += -s $_ for glob "kv/*.kv kv/*.model";
    die "kill $killed: $bytes bytes, at most ", $size * 12, "\n" if $bytes > $size * 12;
}
my @left = glob "kv/.*.tmp";
die "left behind: @left\n" if @left > 1;
print "$killed kills\n";
