#!/usr/bin/env perl
# receipts.pl N - N receipts of random settings are verified; each is then changed (a token, a setting, a setting with a head
# that was made anew, a bit of a weight) and has to be refused where it was changed. In a folder with model.gguf.
use strict;
use warnings;
use Digest::SHA qw(sha256_hex);
use JSON::PP;

my $count = shift;
my $json = JSON::PP->new->canonical;
srand 20261126;
sub pick { $_[rand @_] }

sub slurp { open my $file, "<:raw", $_[0] or die "$_[0]: $!"; local $/; <$file> }
sub spew { open my $file, ">:raw", $_[0] or die "$_[0]: $!"; print $file $_[1]; close $file or die }

# The row of zt-run --verify, as text; the exit status has to agree with it.
sub verify {
    my ($receipt, $model, @more) = @_;
    my $row = (split /\n/, `zt-run -q -m $model --verify $receipt @more`)[-1] // "";
    my $code = $? >> 8;
    die "verify $receipt @more: exit $code: $row\n" unless $code == ($row =~ /^same/ ? 0 : 1);
    return join " ", split /\t/, $row;
}

sub settings {
    my @settings = ("--seed", int rand 1e9, "-n", 1 + int rand 70, "--temp", pick(0, .3, .8, 1.7));
    push @settings, "--top-k", pick(1, 5, 100) if rand() < .3;
    push @settings, "--top-p", pick(.5, .9, 1) if rand() < .3;
    push @settings, "--min-p", pick(0, .2) if rand() < .3;
    push @settings, "--repeat-penalty", pick(1.1, 1.5), "--repeat-last", pick(-1, 8) if rand() < .3;
    push @settings, "--frequency-penalty", pick(.2, -.4) if rand() < .2;
    push @settings, "--presence-penalty", pick(.2, -.4) if rand() < .2;
    push @settings, "--stop", pick("e", "on", "zz") if rand() < .3;
    push @settings, pick("--json-schema schema.json", "--grammar words.gbnf", "--regex '(on |the |[a-h])+'", "--choices hello 'the she'")
        if rand() < .4;
    push @settings, pick("--exact", "--kv f32", "--ignore-eos", "--speculate", "-t 1", "--chunk 3", "--raw");
    return @settings;
}

spew("schema.json", '{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"array","items":{"type":"boolean"}}}}');
spew("words.gbnf", 'root ::= word (" " word)*' . "\n" . 'word ::= [a-z]+' . "\n");
my $weights = slurp("model.gguf");
for my $number (1 .. $count) {
    my @settings = settings();
    my $prompt = join " ", map { pick(qw(hello on the she in there)) } 1 .. 1 + rand 20;
    system("zt-run -q -f -m model.gguf -p '$prompt' @settings --receipt r.json >r.txt") == 0 or die "@settings\n";
    my $receipt = $json->decode(slurp("r.json"));
    my $tokens = @{$receipt->{tokens}};
    my $row = verify("r.json", "model.gguf");
    die "@settings: $row\n" unless $row =~ /^same 0 $tokens $tokens/;
    next if !$tokens; # a grammar that ends at once
    my $from = int rand $tokens;
    die "@settings, from $from\n" unless verify("r.json", "model.gguf", "--from", $from) =~ /^same/;

    my $wanted;
    my $model = "model.gguf";
    my $way = $number % 4;
    if ($way == 0) {
        my $at = int rand $tokens;
        $receipt->{tokens}[$at] ^= 1;
        $wanted = qr/^different 0 $at $tokens token $at$/;
    } elsif ($way == 1) {
        my $name = pick(qw(temp top_p min_p repeat_last n presence_penalty));
        $receipt->{settings}{$name} += $name =~ /^(n|repeat_last)$/ ? 1 : $name eq "top_p" ? -.25 : .25;
        $wanted = qr/^different 0 0 $tokens head/;
    } elsif ($way == 2) {
        # The seed's text is the only part whose head Perl writes as zt-run does.
        my $line = slurp("r.json");
        $receipt->{seed}++;
        my $head = {%$receipt};
        delete @$head{qw(tokens stop isa chain)};
        $receipt->{chain}[0] = sha256_hex($json->encode($head));
        $wanted = qr/^different 0 \d+ $tokens (head|token|logits)/;
    } else {
        $model = "bit.gguf";
        my $bits = $weights;
        substr($bits, -1 - int rand(length($bits) / 2), 1) ^= chr(1 << int rand 8);
        spew($model, $bits);
        $wanted = qr/^different 0 0 $tokens model/;
    }
    spew("changed.json", $json->encode($receipt)) if $way != 3;
    $row = verify($way == 3 ? "r.json" : "changed.json", $model);
    die "@settings, change $way: $row\n" unless $row =~ $wanted;
}
