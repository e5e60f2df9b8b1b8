#!/usr/bin/env perl
# kv_store_kills.pl N [PROCESSES] [MODEL] - N runs of zt-run --kv-store are killed at random moments, by so many processes at once (1);
# after each the text from the store has to be that without one. In a folder with the model (model.gguf).
use strict;
use warnings;
use List::Util qw(max sum0);
use Time::HiRes qw(sleep time);

my ($count, $processes, $model) = @ARGV;
$processes ||= 1;
my @words = qw(hello on the she in there);
my @prompts = map { my $n = $_; join " ", map { $words[($_ * $n) % @words] } 1 .. 90 + $n } 1 .. 5;
my @common = (qw(-q -m), $model || "model.gguf", qw(--raw -n 30 --temp 0));
my @store = qw(--kv-store kv --kv-store-size);

sub text { open my $out, "-|", "zt-run", @_ or die; local $/; my $text = <$out>; close $out or die "zt-run @_: $?\n"; $text }
sub bytes { sum0 map { -s $_ || 0 } map { glob "kv/*.$_" } qw(kv state model) }

my @want = map { text(@common, "-p", $_) } @prompts;
my $begin = time;
text(@common, "-p", $prompts[0], @store, "1GB");
my $usual = time - $begin;
my $limit = 12 * max map { -s $_ } glob "kv/*.kv kv/*.state";

# The store never has more bytes than its size between the runs of one process.
sub kills {
    my ($kills) = @_;
    my $killed = 0;
    while ($killed < $kills) {
        my $number = int rand @prompts;
        my $pid = fork // die;
        if (!$pid) {
            open STDOUT, ">", "/dev/null";
            exec "zt-run", @common, "-p", $prompts[$number], @store, $limit;
        }
        sleep rand(1.2 * $usual * $processes);
        kill KILL => $pid;
        waitpid $pid, 0;
        $killed += ($? & 127) == 9;
        unlink glob "kv/*.kv" if rand() < .1;
        unlink glob "kv/*.state" if rand() < .1;
        my $check = rand() < .5 ? $number : int rand @prompts;
        my $got = text(@common, "-p", $prompts[$check], @store, $limit);
        die "kill $killed: another text of prompt $check\n" if $got ne $want[$check];
        die "kill $killed: ", bytes(), " bytes, at most $limit\n" if $processes == 1 && bytes() > $limit;
    }
}

my @pids;
for my $process (1 .. $processes) {
    my $pid = fork // die;
    push @pids, $pid;
    next if $pid;
    srand 20261127 + $process;
    kills(int(($count + $processes - 1) / $processes));
    exit 0;
}
my $failed = 0;
for (@pids) { waitpid $_, 0; $failed ||= $? }
die "a process failed\n" if $failed;
die "another text at the end\n" if grep { text(@common, "-p", $prompts[$_], @store, $limit) ne $want[$_] } 0 .. $#prompts;
die bytes(), " bytes, at most $limit\n" if bytes() > $limit;
my @left = glob "kv/.*.tmp";
die "left behind: @left\n" if @left > $processes;
print "$count kills\n";
