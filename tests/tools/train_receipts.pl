#!/usr/bin/env perl
# train_receipts.pl N - N receipts of training with random settings are verified, from the beginning and from checkpoints; for each a
# twin is changed (a setting, a member of the receipt, a digest of its chain, a bit of a weight in a checkpoint, a byte of the
# data) and has to be refused where it was changed.
use strict;
use warnings;
use Digest::SHA qw(sha256_hex);
use JSON::PP;
use MIME::Base64;

my $count = shift;
my $json = JSON::PP->new->canonical;
srand 20261127;
sub pick { $_[rand @_] }
sub chance { rand() < $_[0] }

sub slurp { open my $file, "<:raw", $_[0] or die "$_[0]: $!"; local $/; <$file> }
sub spew { open my $file, ">:raw", $_[0] or die "$_[0]: $!"; print $file $_[1]; close $file or die }

my %options; # of the case at hand: an option's value, "" for a flag, a list for one that is repeated

# The command line with these options changed.
sub command {
    my %all = (%options, @_);
    my @words = ("zt-train", "-q");
    for my $option (sort keys %all) {
        my $value = $all{$option} // next;
        push @words, $option, $_ eq "" ? () : "'$_'" for ref $value ? @$value : $value;
    }
    return "@words";
}

# The exit status and the last line of a run, of --verify with spaces for tabs.
sub run {
    my ($line) = @_;
    my $last = (split /\n/, `$line 2>&1`)[-1] // "";
    return ($? >> 8, join " ", split /\t/, $last, -1);
}

# --verify: the row, with which the exit status has to agree.
sub verify {
    my ($receipt, %changed) = @_;
    my ($code, $row) = run(command(%changed, "--verify" => $receipt));
    die command(%changed), ": exit $code: $row\n" unless $code == ($row =~ /^same / ? 0 : $row =~ /^different / ? 1 : -1);
    return $row;
}

sub expect {
    my ($what, $row, $wanted) = @_;
    die command(), "\n$what: $row\nexpected $wanted\n" unless $row =~ $wanted;
}

# Four inputs and one of two classes.
sub samples {
    my ($rows) = @_;
    my $text = "";
    for (1 .. $rows) {
        my @x = map { sprintf "%.3f", rand } 1 .. 4;
        $text .= join(",", @x, $x[0] + $x[1] > $x[2] + $x[3] ? 1 : 0) . "\n";
    }
    return $text;
}

# ---- settings ---------------------------------------------------------------------------------------

sub draw_rate {
    $options{"--optim"} = pick(qw(sgd momentum nesterov rmsprop adam adamw));
    $options{"--lr"} = pick(.001, .01, .03) if chance(.7);
    $options{"--momentum"} = pick(.1, .8) if $options{"--optim"} =~ /^(sgd|momentum|nesterov)$/ && chance(.4);
    $options{"--weight-decay"} = pick(.01, .2) if chance(.3);
    $options{"--clip"} = pick(.1, 1) if chance(.4);
    $options{"--schedule"} = pick(qw(constant linear cosine));
    $options{"--lr-min"} = .0001 if $options{"--schedule"} ne "constant" && chance(.5);
    $options{"--warmup"} = int rand 20 if chance(.3);
    $options{"--seed"} = int rand 1e9;
    $options{"--checkpoint-every"} = pick(1, 5, 16, 16, 16) if chance(.8);
    $options{"-t"} = pick(1, 2) if chance(.2);
}

sub draw_network {
    spew("data.csv", samples(20 + int rand 80));
    $options{"-i"} = "data.csv";
    $options{"--new"} = pick(qw(sequential sequential random));
    $options{"--set"} = ["dModel=4", "numClasses=2"];
    $options{"--loss"} = "cross_entropy";
    my @methods = qw(backprop backprop backprop target-prop-chain);
    push @methods, "target-prop" if $options{"--new"} eq "sequential"; # the other has layers that it cannot train
    $options{"--method"} = pick(@methods);
    $options{"--epochs"} = 1 + int rand 5;
    $options{"--batch"} = 3 + int rand 14;
    $options{"--accumulate"} = pick(2, 3) if $options{"--method"} eq "backprop" && chance(.4);
    $options{"--no-shuffle"} = "" if chance(.2);
    return if !chance(.4);
    spew("valid.csv", samples(10 + int rand 20));
    $options{"--valid"} = "valid.csv";
    $options{"--patience"} = pick(1, 2) if chance(.5);
}

# From now on the network's first weights are those of a file.
sub draw_start {
    my ($code, $line) = run(command("--epochs" => 0, "-o" => "start.json", "-f" => "", "--checkpoint-every" => undef));
    die "$line\n" if $code;
    delete @options{"--new", "--set"};
    $options{"-m"} = "start.json";
}

sub draw_text {
    spew("text.txt", join " ", map { pick(qw(the cat sleeps and a dog barks in its tree)) } 1 .. 400 + int rand 300);
    @options{"--text", "--size", "--vocab", "-c"} = ("text.txt", "40K", 260 + int rand 20, pick(8, 16));
    $options{"--epochs"} = 1;
    $options{"--batch"} = 2 + int rand 7;
    $options{"--accumulate"} = 2 if chance(.4);
}

# ---- what is changed --------------------------------------------------------------------------------

# A setting of the command line.
sub change_setting {
    my %ways = (
        "--seed" => [$options{"--seed"} + 1, "seed"],
        "--lr" => [.002, "options"],
        "--warmup" => [($options{"--warmup"} // 0) + 1, "options"],
        "--batch" => [$options{"--batch"} + 1, "options"],
        "--clip" => [.7, "program"],
        "--weight-decay" => [.05, "program"],
        "--optim" => [$options{"--optim"} eq "adam" ? "rmsprop" : "adam", "program"],
        "--schedule" => [$options{"--schedule"} eq "linear" ? "cosine" : "linear", "options"],
        "--epochs" => [$options{"--epochs"} + 1, $options{"--schedule"} eq "constant" ? "steps" : "options"],
    );
    delete $ways{"--optim"} if defined $options{"--momentum"};
    delete $ways{"--epochs"} if $options{"--patience"};
    $ways{"--no-shuffle"} = [exists $options{"--no-shuffle"} ? undef : "", "options"] if $options{"-i"};
    $ways{"--method"} = [$options{"--method"} eq "target-prop-chain" ? "backprop" : "target-prop-chain", "program"]
        if $options{"-i"} && !$options{"--accumulate"};
    $ways{"--accumulate"} = [($options{"--accumulate"} // 1) + 1, "accumulate"] if ($options{"--method"} // "backprop") eq "backprop";
    my $name = pick(sort keys %ways);
    my ($value, $differs) = @{$ways{$name}};
    expect($name, verify("r.json", $name => $value), $differs eq "steps" ? qr/^different 0 (\d+) \1 steps \1$/ : qr/^different 0 0 \d+ $differs $/);
}

# A member of the receipt, with the digest of the head as it was, or made anew.
sub change_member {
    my ($receipt) = @_;
    my $name = pick(qw(seed accumulate program data options start));
    my $sealed = chance(.7);
    if ($name eq "accumulate") { $receipt->{$name}++ } else { $receipt->{$name} =~ tr/0-9/1-90/ }
    $receipt->{$name} =~ tr/a-f/b-fa/ if $name =~ /^(program|data|start)$/;
    my %head = %$receipt;
    delete @head{qw(steps chain)};
    $receipt->{chain}[0] = sha256_hex($json->encode(\%head)) if $sealed;
    spew("changed.json", $json->encode($receipt));
    expect("$name, sealed: " . ($sealed ? 1 : 0), verify("changed.json"), $sealed ? qr/^different 0 0 \d+ $name $/ : qr/^different 0 0 \d+ head $/);
}

# A digest of the chain: the link that ends with it is the first that differs.
sub change_chain {
    my ($receipt) = @_;
    my $link = int rand @{$receipt->{chain}};
    my $first = 16 * ($link - 1);
    my $digit = int rand 64;
    substr($receipt->{chain}[$link], $digit, 1) =~ tr/0-9a-f/1-9a-f0/;
    spew("changed.json", $json->encode($receipt));
    expect("digest $link", verify("changed.json"), $link ? qr/^different 0 $first \d+ states $first$/ : qr/^different 0 0 \d+ head $/);
}

# A bit of a weight: in the checkpoint, whose checksum finds it; and before the first step, so that the checkpoint is whole and of
# the same settings, and its weights are others.
sub change_weight {
    my ($steps) = @_;
    my $checkpoint = slurp("ck");
    unlink "ck.before";
    my $bits = $checkpoint;
    substr($bits, -17 - int rand(length($bits) / 2), 1) ^= chr(1 << int rand 8);
    spew("bit.ck", $bits);
    my ($code, $line) = run(command("--verify" => "r.json", "--checkpoint" => "bit.ck", "--resume" => ""));
    expect("exit $code", $line, qr/^zt-train: bit\.ck: corrupt training checkpoint \(\d+ bytes\): checksum mismatch$/);
    die "exit $code\n" if $code != 65;
    return if !$options{"-m"};

    my $start = slurp("start.json");
    my @layers;
    push @layers, [$-[1], $+[1]] while $start =~ /"weights":"([^"]+)"/g;
    my ($from, $to) = @{pick(@layers)};
    my $weights = decode_base64(substr($start, $from, $to - $from));
    substr($weights, 4 * int(rand(length($weights) / 4)) + 2, 1) ^= chr(1 << int rand 7); # of the f32's mantissa
    substr($start, $from, $to - $from) = encode_base64($weights, "");
    spew("other.json", $start);
    expect("other weights", verify("r.json", "-m" => "other.json"), qr/^different 0 0 $steps start $/);
    ($code, $line) = run(command("-m" => "other.json", "-o" => "other.out.json", "-f" => "", "--checkpoint" => "other.ck"));
    die "$line\n" if $code;
    return if slurp("other.ck") eq $checkpoint;
    my $row = verify("r.json", "--checkpoint" => "other.ck", "--resume" => "");
    # A run with --patience may end elsewhere.
    expect("checkpoint of other weights", $row, qr/^different (\d+) \1 $steps (checkpoint|steps) \1$/);
}

# A byte of the samples, the validation samples or the text.
sub change_data {
    my $option = $options{"--text"} ? "--text" : $options{"--valid"} && chance(.5) ? "--valid" : "-i";
    my $data = slurp($options{$option});
    if ($option eq "--text") {
        my $at = int rand length $data;
        my $byte = substr($data, $at, 1);
        substr($data, $at, 1) = $byte eq " " ? "," : $byte eq "z" ? "y" : chr(1 + ord $byte);
    } else {
        my @decimals; # the last of each number with a point
        push @decimals, $-[1] while $data =~ /\.\d\d(\d)/g;
        substr($data, pick(@decimals), 1) =~ tr/0-9/1-90/;
    }
    spew("changed.data", $data);
    # Another byte of the text may give another vocabulary, which the network has the size of.
    my $differs = $option eq "--text" ? qr/data|program/ : qr/data/;
    expect("data $option", verify("r.json", $option => "changed.data"), qr/^different 0 0 \d+ $differs $/);
}

# ---- the cases --------------------------------------------------------------------------------------

my %found;
for my $number (1 .. $count) {
    my $way = $number % 5;
    my ($code, $line);
    do {
        %options = ();
        unlink glob "*ck* *.json *.csv *.txt *.gguf";
        draw_rate();
        if ($number % 10 == 4) { draw_text() } else { draw_network() }
        draw_start() if $options{"--new"} && ($way == 3 || chance(.2));
        my $out = $options{"--text"} ? "out.gguf" : "out.json";
        ($code, $line) = run(command("-o" => $out, "-f" => "", "--checkpoint" => "ck", "--receipt" => "r.json"));
        die command(), ": exit $code: $line\n" if $code && $line !~ /try a lower --lr/;
    } while $code;
    my $receipt = $json->decode(slurp("r.json"));
    my $steps = $receipt->{steps};
    my $every = delete $options{"--checkpoint-every"};
    expect("unchanged", verify("r.json"), qr/^same 0 $steps $steps  $/);
    expect("unchanged", verify("r.json", "--checkpoint" => "ck", "--resume" => ""), qr/^same $steps $steps $steps  $/);
    if (-e "ck.before") {
        ($code, $line) = run(command("--verify" => "r.json", "--checkpoint" => "ck.before", "--resume" => ""));
        expect("from before, exit $code", $line, qr/^same \d+ $steps $steps  $|of step \d+, which is not a multiple of 16/);
        $found{"resumed"}++ if $line =~ /^same [1-9]/ && $line !~ /^same $steps /;
    }

    if ($way == 0) { change_setting() }
    elsif ($way == 1) { change_member($receipt) }
    elsif ($way == 2) { change_chain($receipt) }
    elsif ($way == 3) { change_weight($steps) }
    else { change_data() }
}
die "no run was resumed between its ends\n" if $count >= 10 && !$found{resumed};
